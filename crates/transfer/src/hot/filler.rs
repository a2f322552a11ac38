use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use mooncake_memory::{Buffer, SliceList, monotonic_ns, spawn_unpinned};
use mooncake_types::RangeRead;

use super::{PROMISE_NS, Shelf};
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
    queue: Mutex<Option<SyncSender<Work>>>,
    waiting: Arc<Mutex<Waiting>>,
}

/// A range, its node, and what is to be done.
struct Work {
    kind: Kind,
    endpoint: Arc<str>,
    range: RangeRead,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fill,
    Renew,
}

/// What waits or is at work, so that it is not queued twice.
#[derive(Default)]
struct Waiting {
    fills: BTreeSet<Place>,
    renewals: BTreeSet<Place>,
}

/// What names a range; see [`RangeRead`].
type Place = (u128, u64, u64, u64, u64, u64);

fn place(range: &RangeRead) -> Place {
    let RangeRead { segment, offset, version, from, len, .. } = *range;
    (segment.0, offset, version.epoch.0, version.counter, from, len)
}

impl Waiting {
    fn of(&mut self, kind: Kind) -> (&mut BTreeSet<Place>, usize) {
        match kind {
            Kind::Fill => (&mut self.fills, MOST_FILLS),
            Kind::Renew => (&mut self.renewals, MOST_RENEWALS),
        }
    }

    fn remove(&mut self, work: &Work) {
        self.of(work.kind).0.remove(&place(&work.range));
    }
}

impl Filler {
    pub(super) fn new(shelf: Arc<Shelf>, config: TcpConfig) -> Self {
        Self { shelf, config, queue: Mutex::default(), waiting: Arc::default() }
    }

    /// Queues a range that is to be kept, if there is room. Never waits for the network.
    pub(super) fn fill(&self, op: &ReadOp) {
        if !self.queue(Kind::Fill, op) {
            self.shelf.skipped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a copy of which the promise is over, or nearly so. Never waits for the network.
    pub(super) fn renew(&self, op: &ReadOp) {
        self.queue(Kind::Renew, op);
    }

    /// Whether it waits, now or already.
    fn queue(&self, kind: Kind, op: &ReadOp) -> bool {
        {
            let mut waiting = lock(&self.waiting);
            let (places, most) = waiting.of(kind);
            if places.len() >= most {
                return places.contains(&place(&op.range));
            }
            if !places.insert(place(&op.range)) {
                return true;
            }
        }
        let work = Work { kind, endpoint: Arc::clone(&op.endpoint), range: op.range };
        let mut queue = lock(&self.queue);
        if queue.is_none() {
            *queue = self.start();
        }
        let refused = match queue.as_ref().map(|queue| queue.try_send(work)) {
            Some(Ok(())) => return true,
            // The thread panicked: the next range starts another.
            Some(Err(TrySendError::Disconnected(_))) => {
                *queue = None;
                *lock(&self.waiting) = Waiting::default();
                return true;
            }
            Some(Err(TrySendError::Full(work))) => Some(work),
            None => None,
        };
        drop(queue);
        match refused {
            Some(work) => lock(&self.waiting).remove(&work),
            None => *lock(&self.waiting) = Waiting::default(),
        }
        false
    }

    fn start(&self) -> Option<SyncSender<Work>> {
        let (sender, receiver) = sync_channel(MOST_FILLS + MOST_RENEWALS);
        let (shelf, waiting) = (Arc::clone(&self.shelf), Arc::clone(&self.waiting));
        let tcp = TcpTransport::new(self.config.clone());
        let started = spawn_unpinned(Builder::new().name("hot-cache".to_owned()), move || {
            work(&receiver, &shelf, &tcp, &waiting);
        });
        started
            .inspect_err(|error| tracing::warn!(%error, "the hot cache is not filled"))
            .is_ok()
            .then_some(sender)
    }
}

/// Until the store is closed.
fn work(receiver: &Receiver<Work>, shelf: &Shelf, tcp: &TcpTransport, waiting: &Mutex<Waiting>) {
    while let Ok(first) = receiver.recv() {
        // What waits for promises is asked for together, and before anything is read.
        let all: Vec<Work> = std::iter::once(first).chain(receiver.try_iter()).collect();
        let (renewals, fills): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|work| work.kind == Kind::Renew);
        promise(shelf, tcp, renewals.iter());
        renewals.iter().for_each(|work| lock(waiting).remove(work));
        for work in fills {
            if fill(shelf, tcp, &work) {
                promise(shelf, tcp, std::iter::once(&work));
            }
            lock(waiting).remove(&work);
        }
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
