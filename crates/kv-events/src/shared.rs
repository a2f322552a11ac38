//! State that the tasks of the publisher's thread share.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::history::History;
use crate::message::Encoder;
use crate::snapshot::Snapshot;

/// The counters behind [`Stats`](crate::Stats), which other threads read.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) batches: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) unnumbered_keys: AtomicU64,
    pub(crate) subscribers: AtomicU64,
}

/// The shared state.
pub(crate) struct Shared {
    pub(crate) history: RefCell<History>,
    pub(crate) encoder: RefCell<Encoder>,
    /// The number of the last published batch.
    pub(crate) published: watch::Sender<u64>,
    pub(crate) snapshot: Box<dyn Snapshot>,
    pub(crate) counters: Arc<Counters>,
}
