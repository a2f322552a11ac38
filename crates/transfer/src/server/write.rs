use std::io;
use std::sync::Arc;

use bytes::Bytes;
use mooncake_memory::crc32c;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{Header, Kind, decode_write};

use super::connection::Origin;
use super::served::Arrival;
use super::service::{End, Service};
use crate::Interrupt;
use crate::open_write::OpenWrite;
use crate::sums::{decode_sums, sums_len};

/// A range up to this long is received whole, and checked in private memory, before the node's memory is touched. So
/// a writer that dies early changes nothing.
const SMALL_BYTES: u64 = 16 << 10;

/// Most bytes received between two checks whether the writer was interrupted.
const WINDOW_BYTES: usize = 1 << 20;

/// The payload of a refused range is read past up to this length; beyond it the connection ends instead.
const MAX_SKIP_BYTES: u64 = 64 << 20;

impl Service {
    /// Takes the payload of each range in turn, and answers for all of them. One range is open at a time, as
    /// [`crate::SegmentHost`] demands: each range's checksums follow its own payload.
    pub(super) fn serve_write(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let body = Bytes::copy_from_slice(self.body(header));
        let message = decode_write(body).map_err(|error| End::body(id, &error))?;
        let ranges = message.ranges().map_err(|error| End::body(id, &error))?;
        let context = Arc::clone(&self.context);
        let gate = context.gate(header.kind);
        let mut results = Vec::with_capacity(ranges.len());
        for range in &ranges {
            let result = match gate.check_write(message.epoch(), range) {
                Err(code) => {
                    self.skip_refused(id, range.len.saturating_add(sums_len(range.len)), code)?
                }
                Ok(()) if range.len <= SMALL_BYTES => self.write_small(message.epoch(), range)?,
                Ok(()) => self.write_large(id, message.epoch(), range)?,
            };
            results.push(result);
        }
        let arrival = match self.connection.origin() {
            Origin::Tcp => Arrival::Tcp,
            Origin::Local => Arrival::LocalSocket,
        };
        let complete = ranges.iter().zip(&results).filter(|(_, result)| result.is_ok());
        let lens = complete.map(|(range, _)| range.len);
        self.context.config.served.on_received(arrival, lens);
        self.reply(Kind::WriteReply, id, &results)
    }

    fn write_small(
        &mut self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
    ) -> Result<Result<(), ErrorCode>, End> {
        let (len, trailer) = (range.len as usize, sums_len(range.len) as usize);
        let bytes = self.receiver.read(self.connection.stream(), len + trailer)?;
        if self.connection.is_interrupted() {
            return Err(interrupted());
        }
        let (payload, trailer) = bytes.split_at(len);
        // At most one chunk: a small range is shorter than that.
        let sums: Vec<u32> = decode_sums(trailer).collect();
        if sums.iter().any(|&sum| sum != crc32c(payload)) {
            return Ok(Err(ErrorCode::ChecksumMismatch));
        }
        let interrupt: Arc<dyn Interrupt> = self.connection.clone();
        Ok(OpenWrite::begin(&*self.host, epoch, range, interrupt).and_then(|open| {
            open.memory().write_from(payload);
            open.complete(sums)
        }))
    }

    fn write_large(
        &mut self,
        id: u64,
        epoch: Epoch,
        range: &RangeWrite<'_>,
    ) -> Result<Result<(), ErrorCode>, End> {
        let trailer = sums_len(range.len);
        let host = Arc::clone(&self.host);
        let interrupt: Arc<dyn Interrupt> = self.connection.clone();
        let open = match OpenWrite::begin(&*host, epoch, range, interrupt) {
            Ok(open) => open,
            Err(code) => return self.skip_refused(id, range.len.saturating_add(trailer), code),
        };
        let memory = open.memory();
        self.sums.restart([range.len]);
        let mut filled = 0;
        while filled < memory.len() {
            if self.connection.is_interrupted() {
                return Err(interrupted());
            }
            let window = memory.sub(filled, WINDOW_BYTES.min(memory.len() - filled));
            // Payload usually follows the checksums, and must not enter the inbox.
            let count =
                self.receiver.read_raw(self.connection.stream(), window, trailer as usize)?;
            self.sums.feed(window.sub(0, count));
            filled += count;
        }
        let trailer = self.receiver.read(self.connection.stream(), trailer as usize)?;
        if !decode_sums(trailer).eq(self.sums.sums().iter().copied()) {
            return Ok(Err(ErrorCode::ChecksumMismatch));
        }
        Ok(open.complete(self.sums.take()))
    }

    fn skip_refused(
        &mut self,
        id: u64,
        len: u64,
        code: ErrorCode,
    ) -> Result<Result<(), ErrorCode>, End> {
        if len > MAX_SKIP_BYTES {
            let message = format!("a write was refused before its {len} bytes were sent");
            return Err(End::Refused(id, mooncake_wire::Refusal { code, message }));
        }
        self.receiver.skip(self.connection.stream(), len)?;
        Ok(Err(code))
    }
}

fn interrupted() -> End {
    End::Gone(io::Error::other("a newer writer took the range, or the server stops"))
}
