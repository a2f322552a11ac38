//! State that the tasks of the publisher's thread share.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;

use crate::greeting::Security;
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

/// Whether a peer that shows this password may follow.
pub type Passwords = Box<dyn Fn(&[u8]) -> bool + Send>;

/// The shared state.
pub(crate) struct Shared {
    pub(crate) history: RefCell<History>,
    pub(crate) encoder: RefCell<Encoder>,
    /// The number of the last published batch.
    pub(crate) published: watch::Sender<u64>,
    pub(crate) snapshot: Box<dyn Snapshot>,
    /// `None`: no peer is asked for a password.
    pub(crate) passwords: Option<Passwords>,
    pub(crate) counters: Arc<Counters>,
}

impl Shared {
    pub(crate) fn security(&self) -> Security<'_> {
        self.passwords.as_deref().map_or(Security::Open, |admits| Security::Ask(admits))
    }
}
