//! A segment with a file: what the next process lends again, and what it does not.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::{Buffer, NamedSegment, NamedSegmentOptions};
use mooncake_node::{Host, Segment};
use mooncake_transfer::{Interrupt, SegmentHost};
use mooncake_types::{ClientId, Epoch, ErrorCode, RangeRead, RangeWrite, Seal, SegmentId, Version};

const SEGMENT: SegmentId = SegmentId(5);
const EPOCH: Epoch = Epoch(3);
const STEP: u64 = 64 << 10;

struct Nobody;

impl Interrupt for Nobody {
    fn interrupt(&self) {}
}

/// A file for a segment of this many bytes, removed at the end.
struct Place(PathBuf, u64);

impl Place {
    fn new(name: &str, len: u64) -> Self {
        Self(format!("/dev/shm/mooncake-node-{name}-{}", std::process::id()).into(), len)
    }

    /// The next process lends the segment.
    fn lend(&self) -> (Host, Arc<Segment>) {
        let named = NamedSegment::open(&NamedSegmentOptions {
            path: self.0.clone(),
            len: self.1,
            cluster_id: "blue".to_owned(),
            segment: SEGMENT,
            client: ClientId(6),
            reset: false,
            patience: Duration::from_secs(5),
        });
        let segment = Segment::named(SEGMENT, named.expect("it opens")).expect("it is whole");
        let host = Host::new(vec![segment]);
        host.see_epoch(EPOCH);
        let segment = host.segments().remove(0);
        (host, segment)
    }

    /// Changes a bit of the entry that has this content.
    fn damage(&self, content: &[u8]) {
        let file = File::options().read(true).write(true).open(&self.0).expect("it is there");
        let bytes = std::fs::read(&self.0).expect("it can be read");
        let found = bytes.windows(64).position(|it| it == &content[..64]).expect("it is there");
        let at = found + content.len() - 1;
        file.write_all_at(&[bytes[at] ^ 4], at as u64).expect("it can be written");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn content(number: u64, len: u64) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 97 + number * 101) as u8).collect()
}

fn written(number: u64, len: u64) -> RangeWrite<'static> {
    let version = Version { epoch: EPOCH, counter: number + 1 };
    RangeWrite {
        segment: SEGMENT,
        offset: number * STEP,
        entry_len: len,
        from: 0,
        len,
        key: "key",
        version,
        grant: version,
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

/// Writes an entry as a caller in this process does: without checksums.
fn write(host: &Host, number: u64, len: u64) {
    let ticket = host.begin_write(EPOCH, &written(number, len), Arc::new(Nobody));
    let ticket = ticket.expect("nobody is in the way");
    Buffer::from_vec(content(number, len)).raw().copy_to(ticket.memory.raw());
    host.complete_write(ticket, Vec::new()).expect("nobody superseded it");
}

fn read(host: &Host, number: u64, len: u64) -> Result<Vec<u8>, ErrorCode> {
    let RangeWrite { segment, offset, version, .. } = written(number, len);
    let range =
        RangeRead { segment, offset, version, object_offset: 0, from: 0, len, seal: Seal::NONE };
    let ticket = host.begin_read(&range)?;
    let buffer = Buffer::zeroed(len as usize);
    ticket.memory.raw().copy_to(buffer.raw());
    Ok(buffer.as_slice().to_vec())
}

#[test]
fn flipped_bits_in_a_segment_file_give_misses_and_no_wrong_bytes() {
    let place = Place::new("flipped", 32 * STEP);
    let (host, segment) = place.lend();
    (0..8).for_each(|number| write(&host, number, STEP));
    drop((host, segment));
    [1, 4, 6].into_iter().for_each(|number| place.damage(&content(number, STEP)));
    let (host, segment) = place.lend();
    assert_eq!(segment.unchecked_entries(), 8);
    // A reader has its entry checked, and whoever checks the others finds the rest.
    for number in [0, 1] {
        let expected = [Ok(content(number, STEP)), Err(ErrorCode::ObjectNotFound)];
        assert_eq!(read(&host, number, STEP), expected[number as usize], "{number}");
    }
    assert_eq!((segment.unchecked_entries(), segment.damaged_entries()), (6, 1));
    while segment.check_next() {}
    assert_eq!((segment.unchecked_entries(), segment.damaged_entries()), (0, 3));
    for number in 0..8 {
        let expected = match number {
            1 | 4 | 6 => Err(ErrorCode::ObjectNotFound),
            _ => Ok(content(number, STEP)),
        };
        assert_eq!(read(&host, number, STEP), expected, "{number}");
    }
    // What was damaged is written again, and stays.
    let again = RangeWrite { key: "key", ..written(1, STEP) };
    let newer = Version { epoch: EPOCH, counter: 100 };
    let again = RangeWrite { version: newer, grant: newer, ..again };
    let ticket = host.begin_write(EPOCH, &again, Arc::new(Nobody)).expect("it is free");
    host.complete_write(ticket, Vec::new()).expect("nobody superseded it");
    drop((host, segment));
    let (_host, segment) = place.lend();
    while segment.check_next() {}
    assert_eq!((segment.complete_entries().0, segment.damaged_entries()), (6, 0));
}

/// The entry has too many chunks for a row, which keeps one checksum for all.
#[test]
fn a_flipped_bit_in_a_very_long_object_is_found_too() {
    let len = (128 << 20) + 5;
    for is_damaged in [false, true] {
        let place = Place::new(if is_damaged { "long-bad" } else { "long" }, len + STEP);
        let (host, segment) = place.lend();
        write(&host, 0, len);
        drop((host, segment));
        if is_damaged {
            place.damage(&content(0, len));
        }
        let (host, segment) = place.lend();
        assert_eq!(read(&host, 0, len).is_err(), is_damaged);
        assert_eq!(segment.damaged_entries(), u64::from(is_damaged));
    }
}

#[test]
fn an_entry_that_is_written_in_parts_is_there_after_a_restart() {
    let place = Place::new("parts", 4 * STEP);
    let (host, segment) = place.lend();
    let bytes = Buffer::from_vec(content(0, 2 * STEP));
    for from in [STEP, 0] {
        let part = RangeWrite { from, len: STEP, ..written(0, 2 * STEP) };
        let ticket = host.begin_write(EPOCH, &part, Arc::new(Nobody)).expect("it is free");
        bytes.raw().sub(from as usize, STEP as usize).copy_to(ticket.memory.raw());
        host.complete_write(ticket, Vec::new()).expect("nobody superseded it");
    }
    drop((host, segment));
    let (host, _segment) = place.lend();
    assert_eq!(read(&host, 0, 2 * STEP), Ok(content(0, 2 * STEP)));
}
