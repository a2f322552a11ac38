use mooncake_types::{Epoch, ErrorCode, PutEnd, PutRevoke, Tick, Version, limits};

use super::coverage::Coverage;
use super::granted::Granted;
use super::span::{Part, Span, spans};
use super::{Deposit, Discard, MoveError};

/// A put that was granted and is written part by part: what is in place, what is on its way, which replicas failed.
///
/// A replica that missed a part is out for good, even if the part is written again: what of the first attempt is still
/// on its way to a slow node could land on top of the second.
#[derive(Clone, Debug)]
pub struct OpenPut {
    granted: Granted,
    expires_at: Tick,
    /// What all replicas that did not fail have.
    covered: Coverage,
    /// Bit `i` is set if a write to replica `i` failed.
    failed_replicas: u32,
    held_replicas: u32,
    under_way: Vec<Flight>,
    next_flight: u64,
    is_sealed: bool,
}

/// Parts that are being written.
#[derive(Clone, Debug)]
struct Flight {
    id: u64,
    spans: Vec<Span>,
}

/// The right to write some parts, from [`OpenPut::begin`] to [`OpenPut::finish`].
#[derive(Clone, Debug)]
pub struct PartsWrite {
    flight: u64,
    spans: Vec<Span>,
    granted: Granted,
    without: u32,
    total_len: u64,
}

impl OpenPut {
    pub(super) fn new(granted: Granted, expires_at: Tick) -> Self {
        Self {
            granted,
            expires_at,
            covered: Coverage::default(),
            failed_replicas: 0,
            held_replicas: 0,
            under_way: Vec::new(),
            next_flight: 0,
            is_sealed: false,
        }
    }

    /// From when on nothing is written any more: the master may have given the put up.
    #[must_use]
    pub const fn expires_at(&self) -> Tick {
        self.expires_at
    }

    /// The version of the object.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.granted.version
    }

    /// Takes parts for writing.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for parts past the end, and once the put is sealed;
    /// [`ErrorCode::ObjectReplicaBusy`] if another write is at work on some of the bytes;
    /// [`ErrorCode::LeaseExpired`] if the put has taken too long; [`ErrorCode::TransferFail`] if no replica is left;
    /// [`ErrorCode::InvalidWrite`] for bytes in a range that is complete, which its node would refuse, and for too many
    /// parts with gaps between them.
    pub fn begin(&mut self, parts: &[Part], now: Tick) -> Result<PartsWrite, ErrorCode> {
        let object_len = self.granted.object_len;
        if self.is_sealed || !parts.iter().all(|part| part.lies_within(object_len)) {
            return Err(ErrorCode::InvalidParams);
        }
        if now >= self.expires_at {
            return Err(ErrorCode::LeaseExpired);
        }
        if self.all_failed() {
            return Err(ErrorCode::TransferFail);
        }
        let spans = spans(parts, object_len);
        let mut busy = self.under_way.iter().flat_map(|flight| &flight.spans);
        if busy.any(|other| spans.iter().any(|span| overlap(span, other))) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        self.check_room(&spans)?;
        let flight = self.next_flight;
        self.next_flight += 1;
        self.under_way.push(Flight { id: flight, spans: spans.clone() });
        Ok(PartsWrite {
            flight,
            spans,
            granted: self.granted.clone(),
            without: self.failed_replicas,
            total_len: parts.iter().map(|part| part.len).sum(),
        })
    }

    /// Parts have been written, or not; gives their length in bytes.
    ///
    /// # Errors
    /// [`ErrorCode::TransferFail`] or the node's refusal if no replica has them.
    pub fn finish(
        &mut self,
        write: &PartsWrite,
        results: &[Result<(), MoveError>],
    ) -> Result<u64, ErrorCode> {
        self.under_way.retain(|flight| flight.id != write.flight);
        let failed =
            write.granted.failed_replicas(&write.spans, write.without, results, &mut Vec::new());
        self.failed_replicas |= failed.all;
        self.held_replicas |= failed.held;
        if self.all_failed() {
            let refusal = results.iter().find_map(|result| match result {
                Err(MoveError::Refused(code)) if *code != ErrorCode::Ok => Some(*code),
                _ => None,
            });
            return Err(refusal.unwrap_or(ErrorCode::TransferFail));
        }
        for span in &write.spans {
            self.covered.add(span.from, span.len);
        }
        Ok(write.total_len)
    }

    /// Nothing is written any more from now on, but for what is under way.
    pub fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Whether something is being written.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What publishes the object.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidWrite`] if bytes are missing, [`ErrorCode::TransferFail`] if no replica has all of them.
    pub fn ending<'a>(&self, key: &'a str) -> Result<PutEnd<'a>, ErrorCode> {
        if self.is_busy() || !self.covered.contains(0, self.granted.object_len) {
            return Err(ErrorCode::InvalidWrite);
        }
        if self.all_failed() {
            return Err(ErrorCode::TransferFail);
        }
        let Self { failed_replicas, held_replicas, .. } = *self;
        Ok(PutEnd { key, version: self.granted.version, failed_replicas, held_replicas })
    }

    /// What nodes may hold of it.
    #[must_use]
    pub fn discards(&self) -> Vec<Discard> {
        let mut discards = Vec::new();
        if self.covered.pieces() > 0 {
            self.granted.discards_into(self.failed_replicas, &mut discards);
        }
        discards
    }

    /// What gives the put up.
    #[must_use]
    pub const fn revocation<'a>(&self, key: &'a str) -> PutRevoke<'a> {
        PutRevoke { key, version: self.granted.version, held_replicas: self.held_replicas }
    }

    /// Whether the nodes would take these spans once all is in place that is under way.
    fn check_room(&self, spans: &[Span]) -> Result<(), ErrorCode> {
        let mut there = self.covered.clone();
        let under_way: Vec<&Span> = self.under_way.iter().flat_map(|it| &it.spans).collect();
        if there.pieces() + under_way.len() + spans.len() > limits::MAX_ENTRY_PARTS {
            return Err(ErrorCode::InvalidWrite);
        }
        for span in under_way {
            there.add(span.from, span.len);
        }
        for span in spans {
            let mut is_taken = false;
            self.granted.each_cut(&[*span], self.failed_replicas, |cut| {
                is_taken |= there.contains(cut.object_offset, cut.range.len);
            });
            if is_taken {
                return Err(ErrorCode::InvalidWrite);
            }
            there.add(span.from, span.len);
        }
        Ok(())
    }

    fn all_failed(&self) -> bool {
        self.failed_replicas == self.granted.replica_bits()
    }
}

impl PartsWrite {
    /// The epoch that the grant is of.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.granted.version.epoch
    }

    /// What to write, for the item of a batch at `position`.
    #[must_use]
    pub fn deposits<'a>(&self, position: usize, key: &'a str) -> Vec<Deposit<'a>> {
        let mut deposits = Vec::new();
        self.granted.deposits_into((position, key), &self.spans, self.without, &mut deposits);
        deposits
    }
}

fn overlap(one: &Span, other: &Span) -> bool {
    one.from < other.from + other.len && other.from < one.from + one.len
}
