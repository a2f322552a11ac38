use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use mooncake_memory::{Buffer, SliceList, monotonic_ns, spawn_unpinned};
use mooncake_types::RangeRead;

use super::index::Identity;
use super::shelf::{PROMISE_NS, Shelf};
use crate::{ReadOp, TcpConfig, TcpTransport, Transport};

/// Ranges that wait to be kept. What comes when there are more is not kept, this time.
const MOST_FILLS: usize = 64;

/// Copies that wait for a new promise. Of what comes when there are more the nodes are asked with each read.
const MOST_RENEWALS: usize = 1024;

/// Reads once more what is to be kept, and has nodes promise to hold what is, on a thread of its own, which begins with the
/// first such range.
pub(super) struct Filler {
    shelf: Arc<Shelf>,
    config: TcpConfig,
    queue: Arc<WorkQueue>,
}

/// A range, its node, and what is to be done.
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
    /// Told when there is work, and when there will be no more.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Work>,
    /// What waits or is at work, so that it is not queued twice.
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

    /// All that waits, once there is something; nothing once the cache is closed.
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

/// Forgets what the thread was to do when it ends, also by a panic: the next range starts another.
struct ThreadEnd(Arc<WorkQueue>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        *state = QueueState { is_closed: state.is_closed, ..QueueState::default() };
    }
}

impl Filler {
    pub(super) fn new(shelf: Arc<Shelf>, config: TcpConfig) -> Self {
        Self { shelf, config, queue: Arc::default() }
    }

    /// Queues a range that is to be kept, if there is room. Never waits for the network.
    pub(super) fn fill(&self, op: &ReadOp) {
        if !self.queue(WorkKind::Fill, op) {
            self.shelf.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a copy of which the promise is over, or nearly so. Never waits for the network.
    pub(super) fn renew(&self, op: &ReadOp) {
        self.queue(WorkKind::Renew, op);
    }

    /// Whether it waits, now or already.
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

/// What waits for promises is asked for together, and before anything is read.
fn do_all(work: VecDeque<Work>, shelf: &Shelf, tcp: &TcpTransport, queue: &WorkQueue) {
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
fn fill(shelf: &Shelf, tcp: &TcpTransport, work: &Work) -> bool {
    let Work { endpoint, range, .. } = work;
    let Some(buffer) = usize::try_from(range.len).ok().and_then(Buffer::try_zeroed) else {
        return false;
    };
    let (endpoint, dst) = (Arc::clone(endpoint), SliceList::from(buffer.raw()));
    let read = tcp.read(&[ReadOp { endpoint, range: *range, dst }]);
    // What went meanwhile is not hot any more; a node that is gone is found out by those who need it.
    read.first() == Some(&Ok(())) && shelf.insert(range, buffer.raw())
}

/// Asks nodes to promise these. A node that does not is asked with each read.
fn promise<'a>(shelf: &Shelf, tcp: &TcpTransport, copies: impl Iterator<Item = &'a Work>) {
    let ops: Vec<_> = copies.map(|work| (Arc::clone(&work.endpoint), work.range)).collect();
    if ops.is_empty() {
        return;
    }
    let until_ns = monotonic_ns() + PROMISE_NS;
    let results = tcp.promise(&ops);
    let promised = ops.iter().zip(&results).filter(|(_, result)| result.is_ok());
    shelf.promise(promised.map(|((_, range), _)| *range), until_ns);
}
