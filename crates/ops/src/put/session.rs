use mooncake_types::{ErrorCode, NodeDrop, PutEnd, PutRevoke, Tick, Version, limits};

use super::coverage::Coverage;
use super::granted::Granted;
use super::start::GrantedPut;
use super::write::PutWrite;
use crate::location::ReplicaLocation;
use crate::span::{Part, Span, Spans, spans};

/// A granted put that the caller writes part by part.
#[derive(Clone, Debug)]
pub struct PutSession {
    granted: Granted,
    expires_at: Tick,
    /// The bytes that all replicas have that did not fail.
    covered: Coverage,
    /// The spans of each write that has begun. No two have a byte in common.
    under_way: Vec<Spans>,
    is_sealed: bool,
    /// The first closing that was sent to the master and nodes.
    first_closing: Option<FirstClosing>,
}

/// See [`PutSession::note`]. A reply may be lost, so the first closing may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstClosing {
    /// The master may publish the object, so nodes keep its bytes.
    End,
    /// Nodes may have dropped its bytes, so the master may not publish it.
    GiveUp,
}

/// How to close a put session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closing<'a> {
    /// The master publishes the object.
    End(PutEnd<'a>),
    /// The nodes drop what they hold, and the master forgets the put.
    GiveUp(PutRevoke<'a>, Vec<NodeDrop>),
}

impl PutSession {
    pub(super) fn new(granted: Granted, expires_at: Tick) -> Self {
        let (covered, under_way) = (Coverage::default(), Vec::new());
        Self { granted, expires_at, covered, under_way, is_sealed: false, first_closing: None }
    }

    /// From this moment on, no write begins: the master may have discarded the put.
    #[must_use]
    pub const fn expires_at(&self) -> Tick {
        self.expires_at
    }

    /// The version of the object.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.granted.version
    }

    /// The granted ranges of each replica.
    #[must_use]
    pub fn replicas(&self) -> Vec<ReplicaLocation> {
        self.granted.replicas()
    }

    /// Takes parts for writing, for the item of a batch at `position`.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`] for parts past the end, and once the put is sealed;
    /// - [`ErrorCode::ObjectReplicaBusy`] if another write of some of the bytes is under way;
    /// - [`ErrorCode::LeaseExpired`] if the put has taken too long;
    /// - [`ErrorCode::TransferFail`] if no replica is left;
    /// - [`ErrorCode::InvalidWrite`] for bytes of a range that is complete, since its node would refuse them, and for
    ///   too many parts with gaps between them.
    pub fn begin<'a>(
        &mut self,
        position: usize,
        key: &'a str,
        parts: &[Part],
        now: Tick,
    ) -> Result<PutWrite<'a>, ErrorCode> {
        let object_len = self.granted.object_len;
        if self.is_sealed || !parts.iter().all(|part| part.lies_within(object_len)) {
            return Err(ErrorCode::InvalidParams);
        }
        if now >= self.expires_at {
            return Err(ErrorCode::LeaseExpired);
        }
        if self.granted.has_failed_everywhere() {
            return Err(ErrorCode::TransferFail);
        }
        let spans = spans(parts, object_len);
        let mut busy = self.under_way.iter().flatten();
        if busy.any(|other| spans.iter().any(|span| span.overlaps(other))) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        self.check_room(&spans)?;
        if !spans.is_empty() {
            self.under_way.push(spans.clone());
        }
        let granted = self.granted.clone();
        Ok(PutWrite::of(GrantedPut { position, key, granted }, spans))
    }

    /// Takes the outcome of a write, and returns the bytes written.
    ///
    /// # Errors
    /// [`ErrorCode::TransferFail`] or the node's refusal if no replica has them.
    pub fn finish(&mut self, write: &PutWrite<'_>) -> Result<u64, ErrorCode> {
        self.under_way.retain(|spans| *spans != write.spans);
        self.granted.learn_failures(&write.put.granted);
        if self.granted.has_failed_everywhere() {
            return Err(write.failure());
        }
        for span in &write.spans {
            self.covered.add(span.from, span.len);
        }
        Ok(write.spans.iter().map(|span| span.len).sum())
    }

    /// Refuses further writes. Those under way go on.
    pub fn seal(&mut self) {
        self.is_sealed = true;
    }

    /// Whether a write is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Notes that the caller is about to send this closing, which [`PutSession::ending`] or [`PutSession::giving_up`]
    /// gave.
    pub fn note(&mut self, closing: &Closing<'_>) {
        self.first_closing.get_or_insert(match closing {
            Closing::End(_) => FirstClosing::End,
            Closing::GiveUp(..) => FirstClosing::GiveUp,
        });
    }

    /// The request that publishes the object.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidWrite`] if bytes are missing, a write is under way, or the put was given up;
    /// [`ErrorCode::TransferFail`] if all replicas failed.
    pub fn ending<'a>(&self, key: &'a str) -> Result<PutEnd<'a>, ErrorCode> {
        let is_given_up = self.first_closing == Some(FirstClosing::GiveUp);
        if is_given_up || self.is_busy() || !self.covered.contains(0, self.granted.object_len) {
            return Err(ErrorCode::InvalidWrite);
        }
        if self.granted.has_failed_everywhere() {
            return Err(ErrorCode::TransferFail);
        }
        Ok(self.granted.ending(key))
    }

    /// The request that makes the master forget the put.
    #[must_use]
    pub const fn revocation<'a>(&self, key: &'a str) -> PutRevoke<'a> {
        self.granted.revocation(key)
    }

    /// Gives the put up, and has nodes drop what they hold of it. If its end was requested before, the bytes stay
    /// until the master has nodes drop them: a late end would publish an object that no node holds.
    #[must_use]
    pub fn giving_up<'a>(&self, key: &'a str) -> Closing<'a> {
        let mut discards = Vec::new();
        if self.covered.pieces() > 0 && self.first_closing != Some(FirstClosing::End) {
            self.granted.discards_into(&mut discards);
        }
        Closing::GiveUp(self.revocation(key), discards)
    }

    /// Whether the nodes will take these spans once all writes under way have ended.
    fn check_room(&self, spans: &[Span]) -> Result<(), ErrorCode> {
        let mut there = self.covered.clone();
        let under_way: Vec<&Span> = self.under_way.iter().flatten().collect();
        if there.pieces() + under_way.len() + spans.len() > limits::MAX_ENTRY_PARTS {
            return Err(ErrorCode::InvalidWrite);
        }
        for span in under_way {
            there.add(span.from, span.len);
        }
        for span in spans {
            let mut is_taken = false;
            self.granted.each_cut(&[*span], |cut| {
                is_taken |= there.contains(cut.object_offset, cut.range.len);
            });
            if is_taken {
                return Err(ErrorCode::InvalidWrite);
            }
            there.add(span.from, span.len);
        }
        Ok(())
    }
}
