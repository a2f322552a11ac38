//! The carrier over sockets: calls to several peers that were begun together.

use std::sync::Arc;
use std::time::Instant;

use mooncake_calls::{Stage, note_peer};
use mooncake_types::{ErrorCode, SegmentId};

use crate::carrier::{Batch, Carrier, Examined, Fate, Pending};
use crate::client::{CallLimits, PeerCall, Purpose, Question, Read, Write, drive};
use crate::{Source, TcpTransport, TransferError, Way};

/// Calls whose first frames are under way, one to each peer.
pub(crate) struct TcpCalls<'m, Q> {
    pub(crate) calls: Vec<PeerCall<'m, Q>>,
    /// Those whose peers could not be connected to.
    pub(crate) failed: Vec<FailedCall>,
    pub(crate) limits: CallLimits,
    /// When the last of them was begun.
    pub(crate) begun: Instant,
}

/// A call that did not begin.
pub(crate) struct FailedCall {
    pub(crate) positions: Vec<usize>,
    pub(crate) error: TransferError,
    /// Whether time was left to try another way.
    pub(crate) was_in_time: bool,
}

impl<'m, Q: Question<'m>> TcpCalls<'m, Q> {
    /// Waits for all replies. Hands the results over with their positions.
    pub(crate) fn finish(mut self, mut settle: impl FnMut(usize, Result<(), TransferError>)) {
        drive(&mut self.calls, self.limits);
        for call in &self.calls {
            note_peer(call.endpoint(), call.ended().saturating_duration_since(self.begun));
        }
        for call in self.calls {
            call.finish().for_each(|(position, result)| settle(position, result));
        }
        for FailedCall { positions, error, .. } in self.failed {
            positions.into_iter().for_each(|position| settle(position, Err(error.clone())));
        }
    }
}

impl<'m, Q: Question<'m>> Pending for TcpCalls<'m, Q> {
    fn complete(mut self: Box<Self>, fates: &mut [Fate]) -> bool {
        // Peers are not to blame for what this process did meanwhile.
        self.limits.deadline += self.begun.elapsed();
        self.finish(|position, result| {
            fates[position] = Fate::Over(result.map(|()| Source::Tcp));
        });
        false
    }
}

/// Reaches every peer, but moves memory of the host only.
impl Carrier for TcpTransport {
    fn stage(&self) -> Stage {
        Stage::Tcp
    }

    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>> {
        let mut ops = Vec::with_capacity(fates.len());
        for (position, fate) in fates.iter_mut().enumerate().filter(|(_, fate)| fate.is_open()) {
            let (memory, len) = (batch.memory(position), batch.len_bytes(position));
            if !memory.is_host() {
                continue;
            }
            *fate = if memory.total_len() == len {
                ops.push((position, batch.endpoint(position), len));
                Fate::Begun
            } else {
                Fate::Over(Err(TransferError::Refused(ErrorCode::InvalidParams)))
            };
        }
        if ops.is_empty() {
            return None;
        }
        let times = self.transfer_times();
        Some(match batch {
            Batch::Reads(reads) => Box::new(self.begin(Purpose::Read, times, ops, || Read(reads))),
            Batch::Writes(epoch, writes) => {
                Box::new(self.begin(Purpose::Write, times, ops, || Write::new(epoch, writes)))
            }
        })
    }

    fn examine(&self, _endpoint: &Arc<str>, _segment: SegmentId) -> Result<Examined, String> {
        Ok(Examined { way: Some(Way::Tcp), how: String::new() })
    }
}
