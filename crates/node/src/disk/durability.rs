//! What is to outlive the process: it is queued under the lock of the machine, and written without it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_tier::{Name, Notes, RecordStore};
use mooncake_types::ErrorCode;

use super::identity::Identity;

/// What callers hear of a disk that failed.
pub(super) const BROKEN: ErrorCode = ErrorCode::FileWriteFail;

/// Longest wait for a store that is reached over a network: the thread that pings the master is among those that wait.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// After a write to such a store was put off none is tried for so long: callers hear of it at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Changes of a disk that others wait for. Those who wait at the same time share one write.
pub(super) struct Durability {
    notes: Arc<dyn Notes>,
    queue: Mutex<Queue>,
    /// A write has ended.
    ended: Condvar,
}

struct Queue {
    /// Records to be erased.
    erased: Vec<Name>,
    identity: Identity,
    is_identity_new: bool,
    /// The number of the last change that was queued, and up to which all are durable.
    last_queued: u64,
    durable_up_to: u64,
    /// When the write under way began.
    writing_since: Option<Instant>,
    /// The thread that wrote last, if it was one of its own.
    thread: Option<JoinHandle<()>>,
    /// Writes that came to nothing, and are to be repeated.
    failed_attempts: u64,
    pauses_until: Option<Instant>,
    has_failed: bool,
}

/// What is written at a time.
struct Batch {
    erased: Vec<Name>,
    /// The new note.
    identity: Option<Identity>,
    /// How many changes are queued up to it.
    up_to: u64,
}

/// A batch on its way to the thread that writes it. It is put off if there is no such thread.
struct PendingBatch {
    durability: Arc<Durability>,
    batch: Option<Batch>,
}

impl PendingBatch {
    fn write(mut self, disk: &dyn RecordStore) {
        let batch = self.batch.take().expect("it is written once");
        self.durability.write(batch, disk);
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.durability.put_off(batch);
        }
    }
}

impl Queue {
    /// Takes all that is queued. The caller writes it.
    fn begin_write(&mut self) -> Batch {
        self.writing_since = Some(Instant::now());
        let is_new = std::mem::take(&mut self.is_identity_new);
        Batch {
            erased: std::mem::take(&mut self.erased),
            identity: is_new.then(|| self.identity.clone()),
            up_to: self.last_queued,
        }
    }
}

impl Durability {
    /// Of a disk whose note says this.
    pub(super) fn new(notes: Arc<dyn Notes>, identity: Identity) -> Self {
        let queue = Queue {
            erased: Vec::new(),
            identity,
            is_identity_new: false,
            last_queued: 0,
            durable_up_to: 0,
            writing_since: None,
            thread: None,
            failed_attempts: 0,
            pauses_until: None,
            has_failed: false,
        };
        Self { notes, queue: Mutex::new(queue), ended: Condvar::new() }
    }

    /// Queues the erasure of a record.
    pub(super) fn erase(&self, name: Name) {
        let mut queue = self.lock();
        queue.erased.push(name);
        queue.last_queued += 1;
    }

    /// Queues a change of the note.
    pub(super) fn note(&self, change: impl FnOnce(&mut Identity)) {
        let mut queue = self.lock();
        change(&mut queue.identity);
        queue.is_identity_new = true;
        queue.last_queued += 1;
    }

    /// Returns once all that was queued before this call is durable.
    ///
    /// # Errors
    /// [`BROKEN`]: the disk failed, now or before, or did not answer in time. In that case it stays queued.
    pub(super) fn settle(self: &Arc<Self>, disk: &Arc<dyn RecordStore>) -> Result<(), ErrorCode> {
        let mut queue = self.lock();
        let (wanted, failed_before) = (queue.last_queued, queue.failed_attempts);
        while !queue.has_failed
            && queue.durable_up_to < wanted
            && queue.failed_attempts == failed_before
        {
            queue = match queue.writing_since {
                None if queue.pauses_until.is_some_and(|until| Instant::now() < until) => break,
                None => self.begin_write(queue, disk),
                Some(since) if disk.is_far() => {
                    let left = PATIENCE.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        break;
                    }
                    let waited = self.ended.wait_timeout(queue, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
        if queue.has_failed || queue.durable_up_to < wanted { Err(BROKEN) } else { Ok(()) }
    }

    /// Writes all that is queued: on a thread of its own if that may take for as long as a network does not answer.
    fn begin_write<'a>(
        self: &'a Arc<Self>,
        mut queue: MutexGuard<'a, Queue>,
        disk: &Arc<dyn RecordStore>,
    ) -> MutexGuard<'a, Queue> {
        let (batch, before) = (queue.begin_write(), queue.thread.take());
        drop(queue);
        if !disk.is_far() {
            self.write(batch, &**disk);
            return self.lock();
        }
        // It has written. A thread that panicked has said so already.
        drop(before.map(JoinHandle::join));
        let pending = PendingBatch { durability: Arc::clone(self), batch: Some(batch) };
        let disk = Arc::clone(disk);
        let thread = Builder::new().name("mooncake-settle".to_owned());
        let begun = thread.spawn(move || pending.write(&*disk));
        if let Err(error) = &begun {
            tracing::warn!(%error, "there is no thread to write to an object store");
        }
        let mut queue = self.lock();
        queue.thread = begun.ok();
        queue
    }

    /// Returns once no thread uses the disk any more.
    pub(super) fn end(&self) {
        let thread = self.lock().thread.take();
        drop(thread.map(JoinHandle::join));
    }

    /// Writes a batch. Records go before the note changes: the segment of a new name has none of the old one's.
    fn write(&self, batch: Batch, disk: &dyn RecordStore) {
        let is_written = disk.drop_records(&batch.erased).is_ok()
            && batch.identity.as_ref().is_none_or(|identity| {
                disk.renew(identity.nonce());
                self.notes.set_note(&identity.encode()).is_ok()
            });
        if !is_written && !disk.is_broken() && disk.is_far() {
            return self.put_off(batch);
        }
        let mut queue = self.lock();
        match is_written {
            true => queue.durable_up_to = batch.up_to,
            false => queue.has_failed = true,
        }
        if queue.has_failed {
            queue = self.mark(queue);
        }
        queue.writing_since = None;
        self.ended.notify_all();
    }

    /// A batch was not written, and is to be written again.
    fn put_off(&self, batch: Batch) {
        let mut queue = self.lock();
        queue.erased.extend(batch.erased);
        queue.is_identity_new |= batch.identity.is_some();
        queue.failed_attempts += 1;
        queue.pauses_until = Some(Instant::now() + PAUSE);
        queue.writing_since = None;
        self.ended.notify_all();
    }

    /// The disk failed.
    pub(super) fn fail(&self) {
        let mut queue = self.lock();
        let was_well = !std::mem::replace(&mut queue.has_failed, true);
        // Otherwise the thread that writes leaves the mark.
        if was_well && queue.writing_since.is_none() {
            queue.writing_since = Some(Instant::now());
            queue = self.mark(queue);
            queue.writing_since = None;
        }
        drop(queue);
        self.ended.notify_all();
    }

    /// Tells the next process that the disk failed, if the disk takes as much: it starts empty then, since the system may read to
    /// it what the disk never got. A disk that does not take this is not opened again, for its note must be written.
    fn mark<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.identity.is_broken = true;
        let note = queue.identity.encode();
        drop(queue);
        match self.notes.set_note(&note) {
            Ok(()) => tracing::error!("a disk has failed; nothing more is written there"),
            Err(error) => {
                tracing::error!(%error, "a disk has failed, and cannot be marked as such");
            }
        }
        self.lock()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.lock().has_failed
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
