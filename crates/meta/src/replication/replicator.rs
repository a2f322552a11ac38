//! The state of replication.

use mooncake_types::Tick;

use super::heat::Heat;
use crate::config::Replication;

/// The state of replication: see [`replicate`](super::replicate).
#[derive(Debug)]
pub(crate) struct Replicator {
    pub(super) heat: Option<Heat>,
    /// No notice of a hot object is sent before this moment.
    pub(super) silent_until: Tick,
}

impl Replicator {
    pub(crate) fn new(config: &Replication) -> Self {
        let heat = config.mode.is_on().then(|| Heat::new(config.window_ms));
        Self { heat, silent_until: Tick::ZERO }
    }
}
