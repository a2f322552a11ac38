//! The slot table, by which other processes read a segment, always agrees with the ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use mooncake_memory::{Region, SlotReader, SlotRow, digest};
use mooncake_node::{Host, Segment};
use mooncake_transfer::{Interrupt, SegmentHost, SharedSegment, WriteTicket};
use mooncake_types::{
    Chance, Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

const SEGMENT: SegmentId = SegmentId(1);
const EPOCH: Epoch = Epoch(3);
const STEP: u64 = 64 << 10;
const STEPS: u64 = 32;

struct Nobody;

impl Interrupt for Nobody {
    fn interrupt(&self) {}
}

fn host() -> (Host, SharedSegment, SlotReader) {
    let region = Region::anonymous(STEP * STEPS).expect("a little memory");
    let host = Host::new(vec![Segment::new(SEGMENT, region)])
        .with_patience(std::time::Duration::from_millis(1));
    host.see_epoch(EPOCH);
    let shared = host.share(SEGMENT).expect("it is shared");
    let table = shared.slots.descriptor().try_clone_to_owned().expect("a descriptor");
    let reader = SlotReader::received(&table, STEP * STEPS).expect("it is a table");
    (host, shared, reader)
}

fn range(offset: u64, entry_len: u64, counter: u64) -> RangeWrite<'static> {
    let version = Version { epoch: EPOCH, counter };
    RangeWrite {
        segment: SEGMENT,
        offset,
        entry_len,
        from: 0,
        len: entry_len,
        key: "key",
        version,
        grant: version,
        object_len: entry_len + 7,
        object_offset: 7,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn begin(host: &Host, range: &RangeWrite<'_>) -> Result<WriteTicket, ErrorCode> {
    host.begin_write(EPOCH, range, Arc::new(Nobody))
}

#[test]
fn the_table_follows_the_ledger() {
    let seed = 0x5107_0001;
    println!("seed {seed:#x}");
    let mut chance = Chance::new(seed);
    let (host, _shared, reader) = host();
    let mut held: BTreeMap<u64, SlotRow> = BTreeMap::new();
    let mut open: Vec<(WriteTicket, SlotRow)> = Vec::new();
    for counter in 1..=3000 {
        let bits = chance.bits();
        let (offset, len) = (bits % STEPS * STEP, (1 + bits / 64 % 4) * STEP);
        let range = range(offset, len.min(STEP * STEPS - offset), counter);
        let row = SlotRow {
            offset,
            len: range.entry_len,
            version: range.version,
            object_offset: 7,
            digest: None,
        };
        let begun = begin(&host, &range);
        // An overlapping write removes these entries even if it is refused later.
        held.retain(|_, other| {
            other.offset + other.len <= offset || offset + row.len <= other.offset
        });
        if let Ok(ticket) = begun {
            open.push((ticket, row));
        }
        let ends = open.len() > 3 || bits >> 20 & 1 == 1;
        if let Some((ticket, row)) = open.pop_if(|_| ends) {
            let gives_up = bits >> 21 & 3 == 0;
            if gives_up {
                host.abandon_write(ticket);
            } else if host.complete_write(ticket, Vec::new()).is_ok() {
                held.insert(row.offset, row);
            }
        }
        let found = (0..STEPS).filter_map(|step| reader.find(step * STEP));
        let found: Vec<SlotRow> = found.map(|seen| seen.row).collect();
        assert_eq!(found, held.values().copied().collect::<Vec<_>>(), "step {counter}");
    }
}

#[test]
fn what_is_dropped_is_not_read_any_more_and_what_was_put_since_is() {
    let (host, _shared, reader) = host();
    let complete = |counter| {
        let ticket = begin(&host, &range(STEP, STEP, counter)).expect("it is newer");
        assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
    };
    complete(1);
    let old = RangeDrop {
        segment: SEGMENT,
        offset: STEP,
        version: range(0, STEP, 1).version,
        grant: range(0, STEP, 1).version,
    };
    let seen = reader.find(STEP).expect("it is complete");
    assert_eq!(host.drop_range(&old), Ok(()));
    assert!(!reader.still_holds(&seen));
    assert_eq!(reader.find(STEP), None);
    complete(2);
    assert_eq!(host.drop_range(&old), Ok(()));
    assert_eq!(reader.find(STEP).map(|seen| seen.row.version.counter), Some(2));
}

#[test]
fn what_is_written_in_parts_is_in_the_table_when_all_of_it_is_there() {
    let (host, _shared, reader) = host();
    let whole = range(STEP, 2 * STEP, 1);
    for from in [0, STEP] {
        assert_eq!(reader.find(STEP), None);
        let ticket = begin(&host, &RangeWrite { from, len: STEP, ..whole }).expect("it is free");
        assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
    }
    assert_eq!(reader.find(STEP).map(|seen| seen.row.len), Some(2 * STEP));
}

/// Once a segment is taken back, or its host is dropped, no process reads it through its mapping. Its pages are freed,
/// although other processes still have them mapped.
#[test]
fn a_segment_that_is_taken_back_is_closed_for_those_who_mapped_it() {
    let ends: [fn(Host); 2] = [|host| host.take_back(SEGMENT), drop];
    for end in ends {
        let region = Region::anonymous(STEP).expect("a little memory").emptied_at_end();
        let host = Host::new(vec![Segment::new(SEGMENT, region)]);
        host.see_epoch(EPOCH);
        let shared = host.share(SEGMENT).expect("it is shared");
        let table = shared.slots.descriptor().try_clone_to_owned().expect("a descriptor");
        let reader = SlotReader::received(&table, STEP).expect("it is a table");
        let memory = shared.region.sealed_descriptor().expect("it can be handed over");
        let mapped = Region::received(memory.try_clone_to_owned().expect("a descriptor"), STEP);
        let mapped = mapped.expect("it can be mapped");
        let ticket = begin(&host, &range(0, STEP, 1)).expect("it is free");
        mapped.whole().write_from(&vec![7; STEP as usize]);
        assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
        let seen = reader.find(0).expect("it is complete");
        assert!(reader.still_holds(&seen));
        drop(shared);
        end(host);
        assert!(!reader.still_holds(&seen) && reader.is_closed());
        assert_eq!(mapped.whole().to_vec(), vec![0; STEP as usize], "the pages are given back");
    }
}

/// A process that mapped the segment under its old id finds no entry there. The new id has its own slot table.
#[test]
fn a_segment_that_starts_empty_is_closed_for_those_who_mapped_it_before() {
    let (host, _shared, reader) = host();
    let complete = |range: &RangeWrite<'_>| {
        let ticket = begin(&host, range).expect("it is newer");
        assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
    };
    complete(&range(STEP, STEP, 1));
    let seen = reader.find(STEP).expect("it is complete");
    let renamed = SegmentId(2);
    assert!(host.start_empty(SEGMENT, renamed));
    assert!(!reader.still_holds(&seen) && reader.is_closed());
    assert!(host.share(SEGMENT).is_none());
    let shared = host.share(renamed).expect("it is shared");
    let table = shared.slots.descriptor().try_clone_to_owned().expect("a descriptor");
    let fresh = SlotReader::received(&table, STEP * STEPS).expect("it is a table");
    assert_eq!(fresh.find(STEP), None);
    complete(&RangeWrite { segment: renamed, ..range(STEP, STEP, 2) });
    assert_eq!(fresh.find(STEP).map(|seen| seen.row.version.counter), Some(2));
    assert!(reader.find(STEP).is_none_or(|seen| !reader.still_holds(&seen)));
}

#[test]
fn a_segment_that_verifies_has_digests_at_once_and_reads_no_part_that_has_changed() {
    let region = Region::anonymous(STEP * STEPS).expect("a little memory");
    let host = Host::new(vec![Segment::new(SEGMENT, region).verifying(true)]);
    host.see_epoch(EPOCH);
    let shared = host.share(SEGMENT).expect("it is shared");
    let table = shared.slots.descriptor().try_clone_to_owned().expect("a descriptor");
    let reader = SlotReader::received(&table, STEP * STEPS).expect("it is a table");
    let entry = range(0, 5 * STEP, 1);
    let ticket = begin(&host, &entry).expect("nobody is in the way");
    let written = ticket.memory.raw().chunk_crcs();
    assert_eq!(host.complete_write(ticket, Vec::new()), Ok(()));
    assert_eq!(reader.find(0).expect("it is complete").row.digest, Some(digest(&written)));
    let (segment, version, object_offset, seal) = (SEGMENT, entry.version, 7, Seal::NONE);
    let read = |from, len| {
        let part = RangeRead { segment, offset: 0, version, object_offset, from, len, seal };
        host.begin_read(&part).map(|ticket| ticket.memory.len())
    };
    shared.region.slice(9 * STEP / 2, 1).expect("in the second chunk").write_from(&[1]);
    assert_eq!(read(10, 100), Ok(100), "the first chunk is as it was");
    assert_eq!(read(5 * STEP - 10, 10), Err(ErrorCode::ObjectNotFound));
    assert_eq!(read(10, 100), Err(ErrorCode::ObjectNotFound), "the entry is lost");
    assert_eq!(reader.find(0), None);
}
