//! Checks that peers were given what they ask for.

use std::time::Instant;

use mooncake_seals as seals;
use mooncake_types::{
    Epoch, ErrorCode, Follow, LogLimiter, RangeDrop, RangeRead, RangeWrite, Seal, SealKey,
};
use mooncake_wire::Kind;

use super::server_context::ServerContext;

/// Checks the seals of one frame, if the node has keys.
pub(super) struct Gate<'a, K> {
    context: &'a ServerContext,
    kind: Kind,
    keys: Option<K>,
}

impl ServerContext {
    /// A gate for the ranges of a frame of this kind.
    pub(super) fn gate(
        &self,
        kind: Kind,
    ) -> Gate<'_, impl Iterator<Item = SealKey> + Clone + use<>> {
        let keys = self.config.seals.as_ref().map(|seals| seals.good());
        Gate { context: self, kind, keys }
    }
}

impl<K: Iterator<Item = SealKey> + Clone> Gate<'_, K> {
    /// Whether the master has let the peer read this range.
    pub(super) fn check_read(&self, range: &RangeRead) -> Result<(), ErrorCode> {
        self.check(range.seal, |key| seals::on_read(key, range))
    }

    /// Whether the master has let the peer write this range, in the epoch that the frame names. The seal covers the epoch
    /// of the grant, but not that of the frame, by which the node refuses writers of older leaders.
    pub(super) fn check_write(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
    ) -> Result<(), ErrorCode> {
        let is_of_epoch = range.grant.epoch == epoch;
        let seal = if is_of_epoch { range.seal } else { Seal::NONE };
        self.check(seal, |key| seals::on_write(key, range))
    }

    /// Whether the master wants this entry dropped.
    pub(super) fn check_drop(&self, range: &RangeDrop, seal: Seal) -> Result<(), ErrorCode> {
        self.check(seal, |key| seals::on_drop(key, range))
    }

    /// Whether the peer may follow this ledger.
    pub(super) fn check_follow(&self, follow: &Follow) -> Result<(), ErrorCode> {
        self.check(follow.seal, |key| seals::on_follow(key, follow.segment))
    }

    fn check(&self, seal: Seal, right: impl Fn(&SealKey) -> Seal) -> Result<(), ErrorCode> {
        let Some(keys) = &self.keys else { return Ok(()) };
        if keys.clone().any(|key| right(&key) == seal) {
            return Ok(());
        }
        self.context.config.served.on_unsealed();
        log_unsealed(self.kind);
        Err(ErrorCode::PermissionDenied)
    }
}

/// Logs one line for each kind of frame, however many ranges are refused.
fn log_unsealed(kind: Kind) {
    static REFUSED: LogLimiter<Kind> = LogLimiter::new();
    if let Some(further) = REFUSED.admit(kind, Instant::now()) {
        tracing::warn!(
            ?kind,
            further,
            "a peer asked for a range that the master has not given to it, or gave to it under an earlier leader"
        );
    }
}
