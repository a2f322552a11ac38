//! Durable changes of a disk: erased records and the note. They are queued under the machine's lock and written
//! outside it.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_tier::{Notes, RecordId, RecordStore};
use mooncake_types::ErrorCode;

use super::identity::Identity;

/// The error that callers get from a failed disk.
pub(super) const BROKEN: ErrorCode = ErrorCode::FileWriteFail;

/// Longest wait for a store that is reached over a network. The thread that pings the master is among the
/// waiters.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// After a write to a store over a network failed, none is tried for this long: calls fail at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Queues changes of a disk until they are durable. Callers that wait at the same time share one write.
pub(super) struct Durability {
    notes: Arc<dyn Notes>,
    queue: Mutex<Queue>,
    /// Signalled when a write has ended.
    ended: Condvar,
}

struct Queue {
    /// Records to erase.
    erased: Vec<RecordId>,
    identity: Identity,
    is_identity_new: bool,
    /// Number of the change that was queued last.
    last_queued: u64,
    /// All changes up to this number are durable.
    durable_up_to: u64,
    /// When the write under way began.
    writing_since: Option<Instant>,
    /// The thread of the last write, if that write had a thread of its own.
    thread: Option<JoinHandle<()>>,
    /// Writes that failed and were queued again.
    failed_attempts: u64,
    pauses_until: Option<Instant>,
    /// Why the disk failed.
    failure: Option<Arc<str>>,
}

/// The changes of one write.
struct Batch {
    erased: Vec<RecordId>,
    /// The note to write, if it changed.
    identity: Option<Identity>,
    /// Number of the last change in the batch.
    up_to: u64,
}

/// Why changes are not durable.
struct WriteError {
    reason: String,
    /// Whether they may yet be: nothing failed for good.
    may_be_repeated: bool,
}

fn is_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A batch on its way to a writer thread. Dropping it unwritten queues its changes again.
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
    /// Takes all queued changes. The caller writes them.
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
    /// `identity` is what the disk's note says now.
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
            failure: None,
        };
        Self { notes, queue: Mutex::new(queue), ended: Condvar::new() }
    }

    /// Queues the erasure of a record.
    pub(super) fn erase(&self, name: RecordId) {
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

    /// Returns once all changes that were queued before this call are durable.
    ///
    /// # Errors
    /// [`BROKEN`] if the disk failed, now or before, or did not answer in time. Unanswered changes stay queued.
    pub(super) fn settle(self: &Arc<Self>, disk: &Arc<dyn RecordStore>) -> Result<(), ErrorCode> {
        let mut queue = self.lock();
        let (wanted, failed_before) = (queue.last_queued, queue.failed_attempts);
        while queue.failure.is_none()
            && queue.durable_up_to < wanted
            && queue.failed_attempts == failed_before
        {
            queue = match queue.writing_since {
                None if queue.pauses_until.is_some_and(|until| Instant::now() < until) => break,
                None => self.begin_write(queue, disk),
                Some(since) if disk.is_remote() => {
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
        let is_durable = queue.failure.is_none() && queue.durable_up_to >= wanted;
        if is_durable { Ok(()) } else { Err(BROKEN) }
    }

    /// Writes all queued changes. A store over a network is written on a separate thread, since it may not
    /// answer for long.
    fn begin_write<'a>(
        self: &'a Arc<Self>,
        mut queue: MutexGuard<'a, Queue>,
        disk: &Arc<dyn RecordStore>,
    ) -> MutexGuard<'a, Queue> {
        let (batch, before) = (queue.begin_write(), queue.thread.take());
        drop(queue);
        if !disk.is_remote() {
            self.write(batch, &**disk);
            return self.lock();
        }
        // The earlier thread has finished its write. If it panicked, the panic was reported already.
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

    /// Waits for the writer thread. Afterwards no thread uses the disk.
    pub(super) fn end(&self) {
        let thread = self.lock().thread.take();
        drop(thread.map(JoinHandle::join));
    }

    /// Writes a batch. A batch that finds no space, or no answer of an object store, is queued again.
    fn write(&self, batch: Batch, disk: &dyn RecordStore) {
        let failure = match self.write_changes(&batch, disk) {
            Err(WriteError { may_be_repeated: true, .. }) => return self.put_off(batch),
            Err(WriteError { reason, .. }) => Some(reason),
            Ok(()) => None,
        };
        let mut queue = self.lock();
        match failure {
            None => queue.durable_up_to = batch.up_to,
            Some(reason) => _ = queue.failure.get_or_insert_with(|| reason.into()),
        }
        if queue.failure.is_some() {
            queue = self.write_broken_note(queue);
        }
        queue.writing_since = None;
        self.ended.notify_all();
    }

    /// Erases records first, then writes the note. So a segment with a new id has no records of the old id.
    fn write_changes(&self, batch: &Batch, disk: &dyn RecordStore) -> Result<(), WriteError> {
        disk.drop_records(&batch.erased).map_err(|broken| WriteError {
            reason: broken.to_string(),
            may_be_repeated: !disk.is_broken(),
        })?;
        let Some(identity) = &batch.identity else { return Ok(()) };
        disk.start_segment(identity.nonce());
        self.notes.set_note(&identity.encode()).map_err(|error| WriteError {
            reason: format!("its note cannot be written: {error}"),
            may_be_repeated: is_of_space(&error) || disk.is_remote() && !disk.is_broken(),
        })
    }

    /// Queues the changes of an unwritten batch again.
    fn put_off(&self, batch: Batch) {
        let mut queue = self.lock();
        queue.erased.extend(batch.erased);
        queue.is_identity_new |= batch.identity.is_some();
        queue.failed_attempts += 1;
        queue.pauses_until = Some(Instant::now() + PAUSE);
        queue.writing_since = None;
        self.ended.notify_all();
    }

    /// Marks the disk as failed, for this reason.
    pub(super) fn fail(&self, reason: &str) {
        let mut queue = self.lock();
        let was_well = queue.failure.is_none();
        queue.failure.get_or_insert_with(|| reason.into());
        // If a write is under way, its thread writes the mark.
        if was_well && queue.writing_since.is_none() {
            queue.writing_since = Some(Instant::now());
            queue = self.write_broken_note(queue);
            queue.writing_since = None;
        }
        drop(queue);
        self.ended.notify_all();
    }

    /// Marks the disk as failed in its note, so that the next process starts empty: the system's cache may
    /// return bytes that never reached the disk. If this write fails, later processes cannot open the disk,
    /// since they must write the note.
    fn write_broken_note<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.identity.is_broken = true;
        let note = queue.identity.encode();
        let reason = queue.failure.clone().unwrap_or_default();
        drop(queue);
        match self.notes.set_note(&note) {
            // Once the disk is taken back, its owner says that and why.
            Ok(()) => tracing::debug!(%reason, "a disk is marked as failed"),
            Err(error) => {
                tracing::error!(%reason, %error, "a disk has failed, and cannot be marked as such");
            }
        }
        self.lock()
    }

    /// Why the disk has failed; `None` if it has not.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
