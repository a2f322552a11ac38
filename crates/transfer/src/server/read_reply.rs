//! The reply to a read: the payload straight from where it lies, and then its checksums.

use mooncake_memory::RawSlice;
use mooncake_types::{ErrorCode, limits::CHUNK_BYTES};
use mooncake_wire::{Kind, encode_results};

use super::service::{End, Service};
use crate::sums::{encode_sums, sums_len};
use crate::{ReadTicket, stream};

/// A reply with no more payload than this is put together in one buffer and sent at once.
const SMALL_BYTES: u64 = 64 << 10;

/// A range that the ledger holds, and the checksums of its bytes.
struct FoundRange {
    ticket: ReadTicket,
    /// Computed from the private copies that were sent; empty if the ledger knows them.
    computed: Vec<u32>,
}

impl FoundRange {
    /// The checksums that were stored with the entry, if they are those of the bytes that are wanted.
    fn stored(&self) -> Option<&[u32]> {
        let stored = self.ticket.checksums.as_deref()?;
        (stored.len() as u64 * 4 == sums_len(self.ticket.memory.len() as u64)).then_some(stored)
    }
}

impl Service {
    /// Sends the ranges that the ledger holds, and then says which of them it still held after the bytes were copied.
    pub(super) fn answer_read(
        &mut self,
        id: u64,
        begun: Vec<Result<ReadTicket, ErrorCode>>,
    ) -> Result<(), End> {
        let mut found = Vec::with_capacity(begun.len());
        let mut statuses = Vec::with_capacity(begun.len());
        for begun in begun {
            statuses.push(begun.map(|ticket| {
                found.push(FoundRange { ticket, computed: Vec::new() });
            }));
        }
        self.out.clear();
        encode_results(&mut self.out, Kind::ReadReply, id, &statuses);
        let payload: u64 = found.iter().map(|found| found.ticket.memory.len() as u64).sum();
        if payload <= SMALL_BYTES {
            self.append_payload(&mut found);
        } else {
            self.send_payload(&mut found)?;
        }
        self.append_trailer(&found);
        self.send_out()?;
        let served = &self.context.config.served;
        served.on_sent(self.connection.origin(), found.len() as u64, payload);
        Ok(())
    }

    /// Copies the payload behind the head.
    fn append_payload(&mut self, found: &mut [FoundRange]) {
        for found in found {
            let memory = found.ticket.memory.raw();
            let from = self.out.len();
            memory.append_to(&mut self.out);
            if found.stored().is_none() && !memory.is_empty() {
                // At most one chunk: a small reply is shorter than that.
                found.computed.push(mooncake_memory::crc32c(&self.out[from..]));
            }
        }
    }

    /// Sends the head and the payload: straight from the node's memory if the checksums are known, else through a
    /// private copy of each chunk. Leaves `out` empty.
    fn send_payload(&mut self, found: &mut [FoundRange]) -> Result<(), End> {
        let mut direct: Vec<RawSlice> = Vec::with_capacity(found.len());
        for found in found {
            if found.stored().is_some() {
                let found: &FoundRange = found;
                direct.push(found.ticket.memory.raw());
            } else {
                self.flush(&mut direct)?;
                self.send_bounced(found)?;
            }
        }
        self.flush(&mut direct)
    }

    /// Sends the bytes in `out`, then `slices`, and leaves both empty.
    fn flush(&mut self, slices: &mut Vec<RawSlice>) -> Result<(), End> {
        stream::send_all(self.connection.stream(), &self.out, slices, true)?;
        self.out.clear();
        slices.clear();
        Ok(())
    }

    fn send_bounced(&mut self, found: &mut FoundRange) -> Result<(), End> {
        let memory = found.ticket.memory.raw();
        for from in (0..memory.len()).step_by(CHUNK_BYTES as usize) {
            let chunk = memory.sub(from, (CHUNK_BYTES as usize).min(memory.len() - from));
            self.bounce.clear();
            chunk.append_to(&mut self.bounce);
            found.computed.push(mooncake_memory::crc32c(&self.bounce));
            stream::send_all(self.connection.stream(), &self.bounce, &[], true)?;
        }
        Ok(())
    }

    fn append_trailer(&mut self, found: &[FoundRange]) {
        for found in found {
            let held = if found.computed.is_empty() {
                self.host.still_holds(&found.ticket)
            } else {
                self.host.learn_checksums(&found.ticket, &found.computed)
            };
            let status = if held { ErrorCode::Ok } else { ErrorCode::ObjectNotFound };
            self.out.extend_from_slice(&status.number().to_le_bytes());
            encode_sums(&mut self.out, found.stored().unwrap_or(&found.computed));
        }
    }
}
