//! Reads that a peer of another host makes one-sided, of memory that has no table of slots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::Access;
use mooncake_types::limits::{MAX_BEGIN_RANGES, time_to_move_ms};
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Header, Kind, decode_read};

use super::far_write::FarDoor;
use super::in_place::Completed;
use super::service::{End, Service};
use crate::ReadTicket;

/// A peer that does not say for so long, and the time that its bytes need, that it has read them is cut off: meanwhile
/// the memory cannot be unregistered.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// One-sided reads that are under way. The door goes before what keeps the memory.
struct FarReading {
    door: Option<FarDoor>,
    found: Vec<Result<ReadTicket, ErrorCode>>,
}

impl Service {
    /// Gives the peer keys of ranges, and waits until it has read them.
    pub(super) fn serve_expose(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_read(self.body(header)).map_err(|error| End::body(id, &error))?;
        if ranges.len() > MAX_BEGIN_RANGES {
            let message = format!("{} ranges are too many to expose together", ranges.len());
            return Err(End::broken(id, message));
        }
        let Some(lender) = self.lender() else {
            return Err(End::broken(id, "this connection takes no Expose frames".to_owned()));
        };
        let (context, host) = (Arc::clone(&self.context), Arc::clone(&self.host));
        let gate = context.gate(header.kind);
        let bytes = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.len));
        let find = |range: &RangeRead| {
            gate.check_read(range)?;
            match host.exposes(range.segment) {
                true => host.begin_read(range),
                false => Err(ErrorCode::NoAvailableHandle),
            }
        };
        let mut found: Vec<Result<ReadTicket, ErrorCode>> = ranges.iter().map(find).collect();
        let kept = self.writer.take();
        let (door, answer) =
            FarDoor::open(&lender, kept, Access::Read, &mut found, |it| &it.memory);
        let mut reading = FarReading { door, found };
        self.reply_begun(id, &answer)?;
        let until = Instant::now() + PATIENCE + Duration::from_millis(time_to_move_ms(bytes));
        let Completed { id, done, .. } = self.await_complete(reading.found.len(), Some(until))?;
        let found = std::mem::take(&mut reading.found);
        let have_ended =
            found.iter().zip(&done).all(|(found, done)| found.is_err() || done.is_ok());
        self.writer = reading.door.take().and_then(|door| door.close(have_ended));
        let results: Vec<Result<(), ErrorCode>> = found
            .into_iter()
            .map(|found| match host.still_holds(&found?) {
                true => Ok(()),
                false => Err(ErrorCode::ObjectNotFound),
            })
            .collect();
        self.reply(Kind::CompleteReply, id, &results)
    }
}
