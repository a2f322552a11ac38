use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use mooncake_memory::{Buffer, SliceList, monotonic_ns, spawn_unpinned};
use mooncake_types::RangeRead;

use super::index::Identity;
use super::shared_cache::{PROMISE_NS, SharedCache};
use crate::{ReadOp, TcpConfig, TcpTransport, Transport};

/// Most ranges that wait to be kept. Further ones are not kept this time.
const MOST_FILLS: usize = 64;

/// Most copies that wait for a new promise. For further ones, each read asks the node.
const MOST_RENEWALS: usize = 1024;

/// Reads ranges once more to keep them, and asks nodes to promise the kept ones. Its own thread does both, and starts
/// with the first range.
pub(super) struct Filler {
    shelf: Arc<SharedCache>,
    config: TcpConfig,
    queue: Arc<WorkQueue>,
}

/// A range, its node, and the kind of work.
struct Work {
    kind: WorkKind,
    endpoint: Arc<str>,
    range: RangeRead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WorkKind {
    Fill,
    Renew,
}

#[derive(Default)]
struct WorkQueue {
    state: Mutex<QueueState>,
    /// Notified when there is work, and when the cache closes.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Work>,
    /// Ranges that wait or are worked on, so that none is queued twice.
    fills: BTreeSet<Identity>,
    renewals: BTreeSet<Identity>,
    has_thread: bool,
    is_closed: bool,
}

impl QueueState {
    fn known(&mut self, kind: WorkKind) -> (&mut BTreeSet<Identity>, usize) {
        match kind {
            WorkKind::Fill => (&mut self.fills, MOST_FILLS),
            WorkKind::Renew => (&mut self.renewals, MOST_RENEWALS),
        }
    }
}

impl WorkQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for work, and takes all of it; `None` once the cache is closed.
    fn take(&self) -> Option<VecDeque<Work>> {
        let is_idle = |state: &mut QueueState| state.waiting.is_empty() && !state.is_closed;
        let waited = self.changed.wait_while(self.lock(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        (!state.is_closed).then(|| std::mem::take(&mut state.waiting))
    }

    fn finish(&self, work: &Work) {
        self.lock().known(work.kind).0.remove(&Identity::of(&work.range));
    }
}

/// Clears the queue when the thread ends, also by a panic. The next range starts another thread.
struct ThreadEnd(Arc<WorkQueue>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        *state = QueueState { is_closed: state.is_closed, ..QueueState::default() };
    }
}

impl Filler {
    pub(super) fn new(shelf: Arc<SharedCache>, config: TcpConfig) -> Self {
        Self { shelf, config, queue: Arc::default() }
    }

    /// Queues a range for the cache, if there is room. Never waits for the network.
    pub(super) fn fill(&self, op: &ReadOp) {
        if !self.queue(WorkKind::Fill, op) {
            self.shelf.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a copy whose promise has ended, or ends soon. Never waits for the network.
    pub(super) fn renew(&self, op: &ReadOp) {
        self.queue(WorkKind::Renew, op);
    }

    /// Queues work, and tells whether it is queued, now or already.
    fn queue(&self, kind: WorkKind, op: &ReadOp) -> bool {
        let mut state = self.queue.lock();
        let (known, most) = state.known(kind);
        let identity = Identity::of(&op.range);
        if known.contains(&identity) || known.len() >= most {
            return known.contains(&identity);
        }
        known.insert(identity);
        state.waiting.push_back(Work { kind, endpoint: Arc::clone(&op.endpoint), range: op.range });
        let is_first = !std::mem::replace(&mut state.has_thread, true);
        drop(state);
        self.queue.changed.notify_one();
        !is_first || self.start()
    }

    fn start(&self) -> bool {
        let (shelf, end) = (Arc::clone(&self.shelf), ThreadEnd(Arc::clone(&self.queue)));
        let tcp = TcpTransport::new(self.config.clone());
        let run = move || {
            while let Some(work) = end.0.take() {
                do_all(work, &shelf, &tcp, &end.0);
            }
        };
        let started = spawn_unpinned(Builder::new().name("hot-cache".to_owned()), run);
        started.inspect_err(|error| tracing::warn!(%error, "the hot cache is not filled")).is_ok()
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.changed.notify_one();
    }
}

/// Asks for all promises together, then reads the ranges to keep.
fn do_all(work: VecDeque<Work>, shelf: &SharedCache, tcp: &TcpTransport, queue: &WorkQueue) {
    let (renewals, fills): (Vec<_>, Vec<_>) =
        work.into_iter().partition(|work| work.kind == WorkKind::Renew);
    promise(shelf, tcp, renewals.iter());
    renewals.iter().for_each(|work| queue.finish(work));
    for work in fills {
        if fill(shelf, tcp, &work) {
            promise(shelf, tcp, std::iter::once(&work));
        }
        queue.finish(&work);
    }
}

/// Reads a range and keeps it. False if it is not kept.
fn fill(shelf: &SharedCache, tcp: &TcpTransport, work: &Work) -> bool {
    let Work { endpoint, range, .. } = work;
    let Some(buffer) = usize::try_from(range.len).ok().and_then(Buffer::try_zeroed) else {
        return false;
    };
    let (endpoint, dst) = (Arc::clone(endpoint), SliceList::from(buffer.raw()));
    let read = tcp.read(&[ReadOp { endpoint, range: *range, dst }]);
    // A failure is ignored: a version that is gone is not hot, and callers notice a dead node themselves.
    read.first() == Some(&Ok(())) && shelf.insert(range, buffer.raw())
}

/// Asks nodes to promise these copies. Without a promise, each read asks the node.
fn promise<'a>(shelf: &SharedCache, tcp: &TcpTransport, copies: impl Iterator<Item = &'a Work>) {
    let ops: Vec<_> = copies.map(|work| (Arc::clone(&work.endpoint), work.range)).collect();
    if ops.is_empty() {
        return;
    }
    let until_ns = monotonic_ns() + PROMISE_NS;
    let results = tcp.promise(&ops);
    let promised = ops.iter().zip(&results).filter(|(_, result)| result.is_ok());
    shelf.promise(promised.map(|((_, range), _)| *range), until_ns);
}
