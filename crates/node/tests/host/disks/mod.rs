//! Disks as segments: which objects survive a restart, and the effects of faults.

mod batches;
mod buckets;
mod faults;
mod folders;
mod histories;
mod kills;
mod log_lines;
mod threads;

use std::sync::Arc;

use mooncake_memory::Region;
use mooncake_node::Host;
use mooncake_tier::testing::DiskDouble;
use mooncake_transfer::{Interrupt, SegmentHost};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

use crate::shells::disk;

/// The capacity of a disk in these tests. Its files take 64 KiB.
const CAPACITY: u64 = 1 << 20;

/// The length of the objects to which the ranges on the disk belong.
const OBJECT_LEN: u64 = 1 << 20;

struct Nobody;

impl Interrupt for Nobody {
    fn interrupt(&self) {}
}

/// The content of a range, now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    offset: u64,
    grant: Version,
    version: Version,
    len: u64,
    object_offset: u64,
}

impl Piece {
    /// A whole object whose grant has the object's version.
    fn whole(offset: u64, version: Version, len: u64) -> Self {
        Self { offset, grant: version, version, len, object_offset: 0 }
    }

    fn write(&self, segment: SegmentId, from: u64, len: u64) -> RangeWrite<'static> {
        RangeWrite {
            segment,
            offset: self.offset,
            from,
            len,
            entry_len: self.len,
            key: "key",
            version: self.version,
            grant: self.grant,
            object_len: OBJECT_LEN,
            object_offset: self.object_offset,
            attributes: &[1, 2, 3],
            seal: Seal::NONE,
        }
    }

    fn read(&self, segment: SegmentId, from: u64, len: u64) -> RangeRead {
        let Self { offset, version, object_offset, .. } = *self;
        RangeRead { segment, offset, version, object_offset, from, len, seal: Seal::NONE }
    }

    fn drop_by(&self, segment: SegmentId, grant: Version) -> RangeDrop {
        RangeDrop { segment, offset: self.offset, version: self.version, grant }
    }

    /// The piece's bytes from this offset on.
    fn bytes(&self, from: u64, len: u64) -> Vec<u8> {
        let start = self.object_offset + from;
        let byte = |at: u64| (at / 251 + at * 7 + self.version.counter * 31) as u8;
        (start..start + len).map(byte).collect()
    }

    /// Whether the ranges of two pieces overlap.
    fn meets(&self, other: &Self) -> bool {
        self.offset < other.offset + other.len && other.offset < self.offset + self.len
    }
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1), counter }
}

/// A host with one disk, led under the first epoch.
fn host(double: &DiskDouble, segment: SegmentId) -> Host {
    let host = Host::new(Vec::new());
    host.lend_disk(disk(double, segment, CAPACITY));
    host.see_epoch(Epoch(1));
    host
}

/// Writes part of a piece.
fn write(
    host: &Host,
    segment: SegmentId,
    piece: &Piece,
    from: u64,
    len: u64,
) -> Result<(), ErrorCode> {
    let range = piece.write(segment, from, len);
    let ticket = host.begin_write(host.epoch(), &range, Arc::new(Nobody))?;
    ticket.memory.raw().write_from(&piece.bytes(from, len));
    host.complete_write(ticket, Vec::new())
}

/// Writes a whole piece. Every other piece for a disk is written from the caller's memory, without a copy.
fn put(host: &Host, segment: SegmentId, piece: &Piece) -> Result<(), ErrorCode> {
    let is_copied = piece.version.counter.is_multiple_of(2) || !host.reads_from_disk(segment);
    if is_copied {
        return write(host, segment, piece, 0, piece.len);
    }
    let memory = Region::anonymous(piece.len).expect("a little memory");
    memory.whole().write_from(&piece.bytes(0, piece.len));
    let range = piece.write(segment, 0, piece.len);
    let written = host.write_in_place(host.epoch(), &range, memory.whole(), Arc::new(Nobody));
    written.expect("a disk takes bytes from where they lie")
}

/// Reads part of a piece and compares its bytes.
fn check_part(
    host: &Host,
    segment: SegmentId,
    piece: &Piece,
    from: u64,
    len: u64,
) -> Result<(), ErrorCode> {
    let ticket = host.begin_read(&piece.read(segment, from, len))?;
    assert!(
        ticket.memory.raw().to_vec() == piece.bytes(from, len),
        "{len} bytes from {from} of {piece:?}"
    );
    if let Some(checksums) = &ticket.checksums {
        assert_eq!(checksums[..], ticket.memory.raw().chunk_crcs()[..], "{piece:?}");
    }
    assert!(host.still_holds(&ticket), "nobody has dropped {piece:?}");
    Ok(())
}

fn check(host: &Host, segment: SegmentId, piece: &Piece) -> Result<(), ErrorCode> {
    check_part(host, segment, piece, 0, piece.len)
}

/// The entries of the ledger.
fn pieces(host: &Host, segment: SegmentId) -> Vec<Piece> {
    let page = host.inventory(segment, 0, 4096).expect("the segment is here");
    assert_eq!(page.next, None);
    let piece = |entry: &mooncake_node::ListedEntry| Piece {
        offset: entry.offset,
        grant: entry.grant,
        version: entry.version,
        len: entry.len,
        object_offset: entry.object_offset,
    };
    page.entries.iter().map(piece).collect()
}
