//! What is to outlive the process: it is queued under the lock of the machine, and written without it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_tier::{Directory, Name, RecordStore};
use mooncake_types::ErrorCode;

use super::identity::Identity;

/// What callers hear of a disk that failed.
pub(super) const BROKEN: ErrorCode = ErrorCode::FileWriteFail;

/// Changes of a disk that others wait for. Those who wait at the same time share one write.
pub(super) struct Durability {
    directory: Arc<dyn Directory>,
    queue: Mutex<Queue>,
    /// A write has ended.
    ended: Condvar,
}

struct Queue {
    /// Records to be erased.
    erased: Vec<Name>,
    identity: Identity,
    is_identity_new: bool,
    /// How many changes were queued, and up to which all last.
    queued: u64,
    lasting: u64,
    is_writing: bool,
    has_failed: bool,
}

impl Durability {
    /// Of a disk whose note says this.
    pub(super) fn new(directory: Arc<dyn Directory>, identity: Identity) -> Self {
        let queue = Queue {
            erased: Vec::new(),
            identity,
            is_identity_new: false,
            queued: 0,
            lasting: 0,
            is_writing: false,
            has_failed: false,
        };
        Self { directory, queue: Mutex::new(queue), ended: Condvar::new() }
    }

    /// A record is to go.
    pub(super) fn erase(&self, name: Name) {
        let mut queue = self.lock();
        queue.erased.push(name);
        queue.queued += 1;
    }

    /// The note is to change.
    pub(super) fn note(&self, change: impl FnOnce(&mut Identity)) {
        let mut queue = self.lock();
        change(&mut queue.identity);
        queue.is_identity_new = true;
        queue.queued += 1;
    }

    /// Returns once all that was queued before this call lasts.
    ///
    /// # Errors
    /// [`BROKEN`]: the disk failed, now or before.
    pub(super) fn settle(&self, disk: &dyn RecordStore) -> Result<(), ErrorCode> {
        let mut queue = self.lock();
        let wanted = queue.queued;
        while !queue.has_failed && queue.lasting < wanted {
            queue = match queue.is_writing {
                true => self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner),
                false => self.write(queue, disk),
            };
        }
        if queue.has_failed { Err(BROKEN) } else { Ok(()) }
    }

    /// Writes all that is queued. Records go before the note changes: the segment of a new name has none of the old one's.
    fn write<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        disk: &dyn RecordStore,
    ) -> MutexGuard<'a, Queue> {
        queue.is_writing = true;
        let (erased, up_to) = (std::mem::take(&mut queue.erased), queue.queued);
        let is_new = std::mem::take(&mut queue.is_identity_new);
        let note = is_new.then(|| (queue.identity.encode(), queue.identity.nonce()));
        drop(queue);
        let is_written = disk.drop_records(&erased).is_ok()
            && note.is_none_or(|(note, nonce)| {
                disk.renew(nonce);
                self.directory.set_note(&note).is_ok()
            });
        queue = self.lock();
        match is_written {
            true => queue.lasting = up_to,
            false => queue.has_failed = true,
        }
        if queue.has_failed {
            queue = self.mark(queue);
        }
        queue.is_writing = false;
        self.ended.notify_all();
        queue
    }

    /// The disk failed.
    pub(super) fn fail(&self) {
        let mut queue = self.lock();
        let was_well = !std::mem::replace(&mut queue.has_failed, true);
        // Otherwise the thread that writes leaves the mark.
        if was_well && !queue.is_writing {
            queue.is_writing = true;
            queue = self.mark(queue);
            queue.is_writing = false;
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
        match self.directory.set_note(&note) {
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
