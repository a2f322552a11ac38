//! The time to encode and to decode the most frequent frames, in nanoseconds per key.
//!
//! `cargo bench -p mooncake-wire`. Each figure is the best of many rounds over 1000 keys of 120 bytes, to exclude the
//! load of other processes.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_types::{
    Epoch, Grant, Located, Placement, PutEnd, PutItem, PutStart, RangeRead, RangeWrite, Reply,
    Request, Seal, SegmentAddress, SegmentId, Version,
};
use mooncake_wire::{
    HEADER_LEN, decode_read, decode_reply, decode_request, decode_write, encode_read, encode_reply,
    encode_request, encode_write,
};

const KEYS: usize = 1000;
const KEY_BYTES: usize = 120;
const OBJECT_BYTES: u64 = 1 << 20;
const ROUNDS_FOR: Duration = Duration::from_millis(300);

fn main() {
    println!("{KEYS} keys of {KEY_BYTES} bytes; per key");
    println!("{:<24} {:>9} {:>11} {:>11}", "frame", "bytes", "encode", "decode");
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    requests(&keys);
    replies();
    ranges(&keys);
}

fn requests(keys: &[&str]) {
    let puts = keys.iter().map(|&key| PutItem::new(key, OBJECT_BYTES)).collect();
    let ends = keys.iter().zip(0..).map(|(&key, counter)| PutEnd {
        key,
        version: version(counter),
        failed_replicas: 0,
        held_replicas: 0,
    });
    let all = [
        ("ExistKey", Request::exist(keys.to_vec())),
        ("GetReplicaList", Request::GetReplicaList { keys: keys.to_vec() }),
        ("PutStart", Request::PutStart(PutStart { puts, ..PutStart::default() })),
        ("PutEnd", Request::PutEnd { puts: ends.collect() }),
    ];
    for (name, request) in &all {
        let encode = |out: &mut Vec<u8>| encode_request(out, 1, black_box(request));
        report(name, encode, |body| {
            let message = decode_request(body.clone()).expect("the frame is whole");
            black_box(message.request().expect("the message is sound"));
        });
    }
}

fn replies() {
    let segments: Vec<SegmentAddress> = (0..16).map(segment).collect();
    let places = |counter| (version(counter), vec![placement(counter)]);
    let grants = (0..KEYS as u64).map(places);
    let located = grants.clone();
    let all = [
        ("ExistKey reply", Reply::Exist((0..KEYS).map(|at| Ok(at % 2 == 0)).collect())),
        (
            "GetReplicaList reply",
            Reply::Located {
                successors: vec![],
                predecessors: vec![],
                results: located
                    .map(|(version, placements)| {
                        Ok(Located { version, len: OBJECT_BYTES, placements })
                    })
                    .collect(),
                segments: segments.clone(),
                lease_ms: 5000,
            },
        ),
        (
            "PutStart reply",
            Reply::Granted {
                results: grants
                    .map(|(version, placements)| {
                        Ok(Grant {
                            version,
                            placements,
                            attributes: Vec::new(),
                            drop_seals: Vec::new(),
                        })
                    })
                    .collect(),
                segments,
            },
        ),
        ("PutEnd reply", Reply::Statuses(vec![Ok(()); KEYS])),
    ];
    for (name, reply) in &all {
        let encode = |out: &mut Vec<u8>| encode_reply(out, 1, black_box(reply));
        report(name, encode, |body| {
            black_box(decode_reply(body.clone()).expect("the frame is whole"));
        });
    }
}

fn ranges(keys: &[&str]) {
    let places = keys.iter().zip(0..).map(|(&key, counter)| (key, version(counter), counter));
    let reads = places.clone().map(|(_, version, at)| RangeRead {
        segment: segment(at % 16).id,
        offset: at * OBJECT_BYTES,
        version,
        object_offset: 0,
        from: 0,
        len: OBJECT_BYTES,
        seal: Seal::NONE,
    });
    let writes = places.map(|(key, version, at)| RangeWrite {
        segment: segment(at % 16).id,
        offset: at * OBJECT_BYTES,
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
    });
    let (reads, writes): (Vec<_>, Vec<_>) = (reads.collect(), writes.collect());
    let mut parts = writes.clone();
    parts.iter_mut().for_each(|write| write.entry_len = 2 * OBJECT_BYTES);
    let encode = |out: &mut Vec<u8>| encode_read(out, 1, black_box(&reads));
    report("Read", encode, |body| {
        black_box(decode_read(body).expect("the frame is whole"));
    });
    for (name, writes) in [("Write", &writes), ("Write, in parts", &parts)] {
        let encode = |out: &mut Vec<u8>| encode_write(out, 1, Epoch(7), black_box(writes));
        report(name, encode, |body| {
            let message = decode_write(body.clone()).expect("the frame is whole");
            black_box(message.ranges().expect("the message is sound"));
        });
    }
}

/// Measures both directions and prints one line.
fn report(name: &str, encode: impl Fn(&mut Vec<u8>), decode: impl Fn(&Bytes)) {
    let mut frame = Vec::new();
    encode(&mut frame);
    let body = Bytes::copy_from_slice(&frame[HEADER_LEN..]);
    let encoding = best(|| {
        frame.clear();
        encode(&mut frame);
        black_box(&frame);
    });
    let decoding = best(|| decode(black_box(&body)));
    let bytes = body.len() as f64 / KEYS as f64;
    println!("{name:<24} {bytes:>9.1} {encoding:>8.1} ns {decoding:>8.1} ns");
}

/// The time of the shortest round, in nanoseconds per key.
fn best(round: impl FnMut()) -> f64 {
    let mut round = round;
    let (begin, mut best) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < ROUNDS_FOR {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed());
    }
    best.as_nanos() as f64 / KEYS as f64
}

fn key(at: usize) -> String {
    format!("{at:0>KEY_BYTES$x}")
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1_700_000_000), counter: 1_000_000 + counter }
}

fn segment(at: u64) -> SegmentAddress {
    let name: Arc<str> = format!("10.0.0.{at}:12345").into();
    let id = SegmentId(0x0123_4567_89AB_CDEF_u128 << 64 | u128::from(at));
    SegmentAddress {
        id,
        name: name.clone(),
        endpoint: name,
        medium: mooncake_types::Medium::Memory,
    }
}

fn placement(at: u64) -> Placement {
    Placement {
        replica: 0,
        segment: (at % 16) as u32,
        offset: at * OBJECT_BYTES,
        len: OBJECT_BYTES,
        seal: Seal::NONE,
    }
}
