use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

use mooncake_memory::{Buffer, SliceList, spawn_unpinned};
use mooncake_types::RangeRead;

use super::Shelf;
use crate::{ReadOp, TcpConfig, TcpTransport, Transport};

/// Ranges that wait. What comes when there are more is not kept, this time.
const MOST_WAITING: usize = 64;

/// Reads once more what is to be kept, on a thread of its own, which begins with the first such range.
pub(super) struct Filler {
    shelf: Arc<Shelf>,
    config: TcpConfig,
    queue: Mutex<Option<SyncSender<Fill>>>,
    waiting: Arc<Waiting>,
}

/// A range that is to be kept, and its node.
struct Fill {
    endpoint: Arc<str>,
    range: RangeRead,
}

/// What waits or is being read, so that it is not queued twice.
type Waiting = Mutex<BTreeSet<Place>>;

/// What names a range; see [`RangeRead`].
type Place = (u128, u64, u64, u64, u64, u64);

fn place(range: &RangeRead) -> Place {
    let RangeRead { segment, offset, version, from, len, .. } = *range;
    (segment.0, offset, version.epoch.0, version.counter, from, len)
}

impl Filler {
    pub(super) fn new(shelf: Arc<Shelf>, config: TcpConfig) -> Self {
        Self { shelf, config, queue: Mutex::default(), waiting: Arc::default() }
    }

    /// Queues a range, if there is room. Never waits for the network.
    pub(super) fn fill(&self, op: &ReadOp) {
        if !lock(&self.waiting).insert(place(&op.range)) {
            return;
        }
        let fill = Fill { endpoint: Arc::clone(&op.endpoint), range: op.range };
        let mut queue = lock(&self.queue);
        if queue.is_none() {
            *queue = self.start();
        }
        let refused = match queue.as_ref().map(|queue| queue.try_send(fill)) {
            Some(Ok(())) => return,
            // The thread panicked: the next range starts another.
            Some(Err(TrySendError::Disconnected(_))) => {
                *queue = None;
                lock(&self.waiting).clear();
                return;
            }
            Some(Err(TrySendError::Full(_))) | None => place(&op.range),
        };
        drop(queue);
        lock(&self.waiting).remove(&refused);
        self.shelf.skipped.fetch_add(1, Ordering::Relaxed);
    }

    fn start(&self) -> Option<SyncSender<Fill>> {
        let (sender, receiver) = sync_channel(MOST_WAITING);
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
fn work(receiver: &Receiver<Fill>, shelf: &Shelf, tcp: &TcpTransport, waiting: &Waiting) {
    while let Ok(Fill { endpoint, range }) = receiver.recv() {
        let buffer = usize::try_from(range.len).ok().and_then(Buffer::try_zeroed);
        if let Some(buffer) = buffer {
            let dst = SliceList::from(buffer.raw());
            let read = tcp.read(&[ReadOp { endpoint, range, dst }]);
            // What went meanwhile is not hot any more; a node that is gone is found out by those who need it.
            if read.first() == Some(&Ok(())) {
                shelf.insert(&range, buffer.raw());
            }
        }
        lock(waiting).remove(&place(&range));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
