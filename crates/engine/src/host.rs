use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_device::{copy_from_caller, copy_to_caller};
use mooncake_memory::{Buffer, HeldSlice, Region};
use mooncake_transfer::{Interrupt, ReadTicket, SegmentHost, WriteTicket};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

use crate::Note;
use crate::mailbox::{HEAD_BYTES, MAX_NOTE_BYTES, Mailbox};
use crate::piece::MAX_DEVICE_BYTES;
use crate::registry::{HeldBytes, Registry};

/// The segment of registered memory. Its offsets are addresses.
const MEMORY: SegmentId = SegmentId(u128::from_be_bytes(*b"engine:memory\0\0\0"));

/// The segment that holds the [`Directory`].
const DIRECTORY: SegmentId = SegmentId(u128::from_be_bytes(*b"engine:directory"));

/// The segment that peers write notes to.
const MAILBOX: SegmentId = SegmentId(u128::from_be_bytes(*b"engine:mailbox\0\0"));

/// Registered memory has no versions: every read and write names this one.
const VERSION: Version = Version { epoch: Epoch(0), counter: 1 };

/// Engines have no leaders and no grants: every write names this epoch.
pub(crate) const EPOCH: Epoch = Epoch(0);

/// A read of memory at an address of the peer.
pub(crate) fn memory_read(address: u64, len: u64) -> RangeRead {
    RangeRead {
        segment: MEMORY,
        offset: address,
        version: VERSION,
        object_offset: 0,
        from: 0,
        len,
        seal: Seal::NONE,
    }
}

/// A read of the peer's directory.
pub(crate) fn directory_read() -> RangeRead {
    let len = Directory::BYTES as u64;
    RangeRead {
        segment: DIRECTORY,
        offset: 0,
        version: VERSION,
        object_offset: 0,
        from: 0,
        len,
        seal: Seal::NONE,
    }
}

/// A write to memory at an address of the peer.
pub(crate) fn memory_write(address: u64, len: u64) -> RangeWrite<'static> {
    write(MEMORY, address, len)
}

/// A write of a note to the peer's mailbox. The encoded note has `len` bytes.
pub(crate) fn mailbox_write(len: u64) -> RangeWrite<'static> {
    write(MAILBOX, 0, len)
}

fn write(segment: SegmentId, offset: u64, len: u64) -> RangeWrite<'static> {
    RangeWrite {
        segment,
        offset,
        entry_len: len,
        from: 0,
        len,
        key: "-",
        version: VERSION,
        grant: VERSION,
        object_len: len,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

/// The oldest registered range. It is encoded as address and length, eight bytes each, little endian. Both are zero if
/// no range is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    pub(crate) address: u64,
    pub(crate) len: u64,
}

impl Directory {
    pub(crate) const BYTES: usize = 16;

    fn encode(self) -> Vec<u8> {
        [self.address.to_le_bytes(), self.len.to_le_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Directory> {
        let [address, len] = bytes.as_chunks::<8>().0 else { return None };
        Some(Directory { address: u64::from_le_bytes(*address), len: u64::from_le_bytes(*len) })
    }
}

/// What an engine serves to its peers: registered memory, a directory and a mailbox.
#[derive(Default)]
pub(crate) struct Host {
    pub(crate) registry: Registry,
    mailbox: Mutex<Mailbox>,
    /// Writes to device memory, by number. The bytes are copied there once all of them are staged.
    landing: Mutex<HashMap<u64, HeldBytes>>,
}

impl Host {
    /// Takes all notes that have arrived.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The present content of the directory.
    pub(crate) fn directory(&self) -> Directory {
        let (address, len) = self.registry.first().unwrap_or_default();
        Directory { address, len }
    }

    /// Copies the staged bytes of a write to device memory, if the write is one to a device.
    fn land(&self, ticket: &WriteTicket) -> Result<(), ErrorCode> {
        let target = self.landing.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket.id);
        let Some(held) = target else { return Ok(()) };
        let landed = copy_to_caller(ticket.memory.raw(), &held.placed().into());
        drop(held);
        landed.map_err(|error| {
            tracing::warn!(%error, "memory of a GPU was not written for a peer");
            ErrorCode::InvalidWrite
        })
    }

    /// Adds a note to the mailbox. False if the mailbox is full.
    pub(crate) fn put_note(&self, note: Note) -> bool {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner).put(note)
    }
}

/// Staging memory between a peer and a device.
fn passing_buffer(len: u64) -> Result<Buffer, ErrorCode> {
    if len > MAX_DEVICE_BYTES {
        return Err(ErrorCode::InvalidParams);
    }
    Buffer::try_zeroed(len as usize).ok_or(ErrorCode::BufferOverflow)
}

/// Wraps an engine's buffer as the memory of a ticket.
fn private(buffer: Buffer) -> Result<HeldSlice, ErrorCode> {
    let region = Region::of_buffer(buffer).map_err(|_| ErrorCode::InvalidParams)?;
    Ok(HeldSlice::whole(Arc::new(region)))
}

impl SegmentHost for Host {
    fn owns(&self, segment: SegmentId) -> bool {
        [MEMORY, DIRECTORY, MAILBOX].contains(&segment)
    }

    fn epoch(&self) -> Epoch {
        EPOCH
    }

    fn begin_write(
        &self,
        _epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode> {
        let segment = range.segment;
        if range.from != 0 || range.len != range.entry_len || range.version != VERSION {
            return Err(ErrorCode::InvalidParams);
        }
        if segment == MAILBOX {
            let len = usize::try_from(range.len).map_err(|_| ErrorCode::InvalidParams)?;
            if range.offset != 0 || len > HEAD_BYTES + MAX_NOTE_BYTES {
                return Err(ErrorCode::InvalidParams);
            }
            let memory = private(Buffer::zeroed(len))?;
            return Ok(WriteTicket { memory, id: 0, segment });
        }
        if segment != MEMORY {
            return Err(ErrorCode::SegmentNotFound);
        }
        let (id, held) = self
            .registry
            .begin_write(range.offset, range.len, interrupt)
            .ok_or(ErrorCode::InvalidWrite)?;
        if let HeldBytes::Host(memory) = held {
            return Ok(WriteTicket { memory, id, segment });
        }
        let passing = passing_buffer(range.len).and_then(private);
        let memory = passing.inspect_err(|_| self.registry.end_write(id))?;
        self.landing.lock().unwrap_or_else(PoisonError::into_inner).insert(id, held);
        Ok(WriteTicket { memory, id, segment })
    }

    fn complete_write(&self, ticket: WriteTicket, _checksums: Vec<u32>) -> Result<(), ErrorCode> {
        if ticket.segment == MAILBOX {
            let note =
                Note::decode(&ticket.memory.raw().to_vec()).ok_or(ErrorCode::InvalidParams)?;
            if !self.put_note(note) {
                tracing::warn!("a note was refused: nobody takes those that came before");
                return Err(ErrorCode::BufferOverflow);
            }
            return Ok(());
        }
        let landed = self.land(&ticket);
        self.abandon_write(ticket);
        landed
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        if ticket.segment == MEMORY {
            self.landing.lock().unwrap_or_else(PoisonError::into_inner).remove(&ticket.id);
            self.registry.end_write(ticket.id);
        }
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let RangeRead { segment, offset, version, from, len, .. } = *range;
        let ticket = |memory| ReadTicket {
            memory,
            checksums: None,
            segment,
            offset,
            from,
            version,
            grant: version,
        };
        if from != 0 || version != VERSION {
            return Err(ErrorCode::InvalidParams);
        }
        if segment == DIRECTORY {
            if offset != 0 || len != Directory::BYTES as u64 {
                return Err(ErrorCode::InvalidParams);
            }
            return private(Buffer::from_vec(self.directory().encode())).map(ticket);
        }
        if segment != MEMORY {
            return Err(ErrorCode::SegmentNotFound);
        }
        let held = self.registry.hold_for_peer(offset, len).ok_or(ErrorCode::InvalidRead)?;
        if let HeldBytes::Host(memory) = held {
            return Ok(ticket(memory));
        }
        let buffer = passing_buffer(len)?;
        copy_from_caller(&held.placed().into(), buffer.raw()).map_err(|error| {
            tracing::warn!(%error, "memory of a GPU was not read for a peer");
            ErrorCode::InvalidRead
        })?;
        private(buffer).map(ticket)
    }

    fn exposes(&self, segment: SegmentId) -> bool {
        segment == MEMORY
    }

    /// Registered memory has no entries to drop.
    fn drop_range(&self, _range: &RangeDrop) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotSupported)
    }

    /// The ticket holds the registration, so the memory has not been unregistered.
    fn still_holds(&self, _ticket: &ReadTicket) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Interrupt for Nobody {
        fn interrupt(&self) {}
    }

    fn write_to(host: &Host, range: &RangeWrite<'_>, bytes: &[u8]) -> Result<(), ErrorCode> {
        let ticket = host.begin_write(EPOCH, range, Arc::new(Nobody))?;
        ticket.memory.raw().write_from(bytes);
        host.complete_write(ticket, Vec::new())
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let host = Host::default();
        let start = host.registry.allocate(100).expect("memory");
        let other = SegmentId(7);
        let refused = |result: Result<(), ErrorCode>, code| assert_eq!(result, Err(code));
        let read = |range: RangeRead| host.begin_read(&range).map(|_| ());
        refused(read(memory_read(start, 101)), ErrorCode::InvalidRead);
        refused(read(memory_read(start - 1, 2)), ErrorCode::InvalidRead);
        refused(read(memory_read(u64::MAX, 2)), ErrorCode::InvalidRead);
        refused(read(RangeRead { from: 1, ..memory_read(start, 1) }), ErrorCode::InvalidParams);
        refused(read(RangeRead { len: 17, ..directory_read() }), ErrorCode::InvalidParams);
        refused(read(RangeRead { segment: other, ..directory_read() }), ErrorCode::SegmentNotFound);
        refused(
            read(RangeRead { segment: MAILBOX, ..directory_read() }),
            ErrorCode::SegmentNotFound,
        );
        let write = |range: RangeWrite<'_>| write_to(&host, &range, &[]);
        refused(write(memory_write(start, 101)), ErrorCode::InvalidWrite);
        refused(
            write(RangeWrite { segment: DIRECTORY, ..mailbox_write(16) }),
            ErrorCode::SegmentNotFound,
        );
        refused(write(mailbox_write(u64::MAX)), ErrorCode::InvalidParams);
        let part = RangeWrite { from: 1, ..memory_write(start, 1) };
        refused(write(part), ErrorCode::InvalidParams);
        let other_version = RangeWrite { version: Version::default(), ..memory_write(start, 1) };
        refused(write(other_version), ErrorCode::InvalidParams);
        refused(write(mailbox_write(70_000)), ErrorCode::InvalidParams);
        refused(write(mailbox_write(0)), ErrorCode::InvalidParams);
        refused(write_to(&host, &mailbox_write(4), &[9; 4]), ErrorCode::InvalidParams);
        assert_eq!(host.take_notes(), vec![]);
    }

    #[test]
    fn the_directory_tells_of_the_first_range() {
        let host = Host::default();
        let directory = || {
            let ticket = host.begin_read(&directory_read()).expect("it is always there");
            Directory::decode(&ticket.memory.raw().to_vec()).expect("sixteen bytes")
        };
        assert_eq!(directory(), Directory { address: 0, len: 0 });
        let address = host.registry.allocate(100).expect("memory");
        assert_eq!(directory(), Directory { address, len: 100 });
        assert_eq!(Directory::decode(&[0; 15]), None);
    }

    #[test]
    fn notes_come_in_order() {
        let host = Host::default();
        let note = |text: &str| Note { name: "n".to_owned(), text: text.to_owned() };
        for text in ["a", "b"] {
            let bytes = note(text).encode().expect("short");
            assert_eq!(write_to(&host, &mailbox_write(bytes.len() as u64), &bytes), Ok(()));
        }
        assert_eq!(host.take_notes(), vec![note("a"), note("b")]);
    }
}
