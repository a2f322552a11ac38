//! The client's operations as pure machines with prepared replies, and the node's ledger.

use std::hint::black_box;
use std::sync::Arc;

use mooncake_node::Ledger;
use mooncake_ops::{ExistOp, GetItem, GetOp, Op, Step};
use mooncake_types::{
    Chance, Epoch, Located, Placement, RangeRead, RangeWrite, Reply, Seal, SegmentAddress,
    SegmentId, Tick, Version,
};

use crate::Row;
use crate::keys::{BATCH, batches, borrowed};

const OBJECT_BYTES: u64 = 64 << 10;
const SEGMENT: SegmentId = SegmentId(7);
/// How many ranges the ledger holds.
const HELD: usize = 10 * BATCH;
const NOW: Tick = Tick(1);

pub(crate) const OPERATIONS: &[Row] = &[
    ("client_exist_1000", "the client's part of batch_is_exist, 1,000 keys; per key", BATCH, exist),
    (
        "client_get_1000",
        "the client's part of batch_get_into without the bytes, 1,000 keys; per key",
        BATCH,
        get,
    ),
    (
        "ledger_write",
        "the ledger: begin and complete a write over an older one; per range",
        BATCH,
        ledger_write,
    ),
    (
        "ledger_read",
        "the ledger: begin a read and see that it still holds; per range",
        BATCH,
        ledger_read,
    ),
];

/// Runs an operation with a prepared reply.
fn drive<'a, O: Op<'a>>(mut op: O, reply: &Reply) -> O::Output {
    loop {
        match op.next(NOW) {
            Step::Call(_) => op.on_reply(Ok(reply.clone())),
            Step::Read(fetches) => op.on_transfer(fetches.iter().map(|_| Ok(())).collect()),
            Step::Write(_, deposits) => op.on_transfer(deposits.iter().map(|_| Ok(())).collect()),
            Step::Drop(_) | Step::Wait(_) => unreachable!("nothing is removed"),
            Step::Done => return op.finish(),
        }
    }
}

fn version(counter: usize) -> Version {
    Version { epoch: Epoch(1), counter: 1 + counter as u64 }
}

fn exist(rounds: usize) {
    let keys = batches(0, 1);
    let keys = borrowed(&keys[0]);
    let reply = Reply::Exist((0..BATCH).map(|at| Ok(at % 2 == 0)).collect());
    for _ in 0..rounds {
        black_box(drive(ExistOp::new(black_box(&keys)), &reply));
    }
}

fn get(rounds: usize) {
    let keys = batches(0, 1);
    let items: Vec<_> = keys[0].iter().map(|key| GetItem::whole(key, Some(OBJECT_BYTES))).collect();
    let located = |at: usize| {
        let offset = at as u64 * OBJECT_BYTES;
        let placement =
            Placement { replica: 0, segment: 0, offset, len: OBJECT_BYTES, seal: Seal::NONE };
        Ok(Located { version: version(at), len: OBJECT_BYTES, placements: vec![placement] })
    };
    let name: Arc<str> = "10.0.0.1:12345".into();
    let segments = vec![SegmentAddress {
        id: SEGMENT,
        name: name.clone(),
        endpoint: name,
        medium: mooncake_types::Medium::Memory,
    }];
    let results = (0..BATCH).map(located).collect();
    let reply = Reply::Located {
        results,
        successors: vec![],
        predecessors: vec![],
        segments,
        lease_ms: 5000,
    };
    for _ in 0..rounds {
        black_box(drive(GetOp::new(black_box(&items), &[], Chance::new(7)), &reply));
    }
}

fn write(at: usize, generation: usize, key: &str) -> RangeWrite<'_> {
    let version = version(generation * HELD + at);
    RangeWrite {
        segment: SEGMENT,
        offset: at as u64 * OBJECT_BYTES,
        entry_len: OBJECT_BYTES,
        from: 0,
        len: OBJECT_BYTES,
        key,
        version,
        grant: version,
        object_len: OBJECT_BYTES,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn put(ledger: &mut Ledger, range: &RangeWrite<'_>) {
    let begun = ledger.begin(black_box(range)).expect("the grant is newer");
    ledger.complete(begun.ticket, vec![7]).expect("nobody superseded it");
}

fn held(keys: &[Vec<String>]) -> Ledger {
    let mut ledger = Ledger::new(HELD as u64 * OBJECT_BYTES);
    for (at, key) in keys.iter().flatten().enumerate() {
        put(&mut ledger, &write(at, 0, key));
    }
    ledger
}

/// The ranges of a round, in an order unlike that of their offsets. A stride of 7,919 scatters them.
fn scattered(round: usize) -> impl Iterator<Item = usize> {
    (0..BATCH).map(move |i| (round * BATCH + i) * 7919 % HELD)
}

fn ledger_write(rounds: usize) {
    let keys = batches(0, HELD / BATCH);
    let mut ledger = held(&keys);
    for round in 0..rounds {
        for at in scattered(round) {
            put(&mut ledger, &write(at, round + 1, &keys[at / BATCH][at % BATCH]));
        }
    }
}

fn ledger_read(rounds: usize) {
    let keys = batches(0, HELD / BATCH);
    let ledger = held(&keys);
    for round in 0..rounds {
        for at in scattered(round) {
            let (offset, version) = (at as u64 * OBJECT_BYTES, version(at));
            let read = RangeRead {
                segment: SEGMENT,
                offset,
                version,
                object_offset: 0,
                from: 0,
                len: OBJECT_BYTES,
                seal: Seal::NONE,
            };
            let held = ledger.read(black_box(&read)).expect("it was written");
            assert!(ledger.still_holds(offset, version, held.grant), "nobody wrote meanwhile");
        }
    }
}
