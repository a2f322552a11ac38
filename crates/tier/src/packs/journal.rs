//! The journal of a prefix: numbered objects, each created only if it does not exist yet.
//!
//! So only one process at a time can write. A process takes the prefix over by creating the next entry, a claim. The
//! old owner notices when it tries to create that number itself, and stops writing. The new owner has therefore read
//! every change that was acknowledged.
//!
//! Serving is bounded by a lease: an owner may serve for the lease's length after it began to store its last entry. It
//! stores empty entries to renew the lease. Another process takes the prefix over only after it has seen no new entry
//! for longer than a lease. The owner's clock counts the time for which its host was suspended, since the other process
//! may have been awake.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::PacksConfig;
use super::entry::{Change, JournalEntry, JournalState};
use super::lease_clock::LeaseClock;
use super::names::{CHECKPOINTS, JOURNAL, name_of, number_of};
use crate::bucket::Bucket;
use crate::errors::{Broken, PutError};

/// Most entries after a checkpoint. Opening the journal reads each of them.
const MOST_ENTRIES: u64 = if cfg!(test) { 16 } else { 256 };

/// The journal of a prefix that this process owns, for appending.
pub(super) struct Journal {
    bucket: Arc<dyn Bucket>,
    /// The seed of this process.
    owner: u64,
    lease: Duration,
    clock: LeaseClock,
    pause: Duration,
    queue: Mutex<Queue>,
    /// Signalled when an attempt to store an entry has ended.
    ended: Condvar,
}

struct Queue {
    /// The combined effect of all stored entries.
    state: JournalState,
    /// Number of the last entry that the last checkpoint covers.
    checkpoint: u64,
    changes: Vec<Change>,
    /// How many batches of changes were queued so far, and how many of these were tried.
    queued: u64,
    tried: u64,
    /// The batches that failed and whose callers do not know it yet.
    failed: BTreeSet<u64>,
    is_writing: bool,
    /// On the lease's clock.
    lease_end: Duration,
    pauses_until: Option<Instant>,
    is_ended: bool,
    broken: Option<Broken>,
}

/// A batch of queued changes. Wait for it exactly once.
#[must_use]
pub(super) struct Queued(u64);

/// Why changes are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JournalError {
    /// The store does not answer. The changes may be stored all the same; the caller must repeat them.
    Unreachable(Arc<str>),
    /// Another process owns the prefix. The changes are not stored.
    Broken(Broken),
}

impl From<JournalError> for Broken {
    fn from(error: JournalError) -> Broken {
        match error {
            JournalError::Unreachable(reason) => Broken(reason),
            JournalError::Broken(broken) => broken,
        }
    }
}

impl From<JournalError> for PutError {
    fn from(error: JournalError) -> PutError {
        match error {
            JournalError::Unreachable(reason) => PutError::Unreachable(reason),
            JournalError::Broken(broken) => PutError::Broken(broken),
        }
    }
}

/// The outcome of an attempt to store an entry.
enum Attempt {
    Stored,
    /// The number belongs to an earlier entry of this process, whose outcome was unknown.
    IsEarlier(JournalEntry),
    IsOthers,
    Failed(io::Error),
}

impl Journal {
    /// The journal of a prefix that this process has claimed. The claim is the last entry, and its storing began at
    /// `since`.
    pub(super) fn new(
        bucket: Arc<dyn Bucket>,
        (state, checkpoint): (JournalState, u64),
        (since, config): (Duration, &PacksConfig),
    ) -> Journal {
        let queue = Queue {
            state,
            checkpoint,
            changes: Vec::new(),
            queued: 0,
            tried: 0,
            failed: BTreeSet::new(),
            is_writing: false,
            lease_end: since + config.lease,
            pauses_until: None,
            is_ended: false,
            broken: None,
        };
        let (queue, ended) = (Mutex::new(queue), Condvar::new());
        let PacksConfig { seed: owner, lease, pause, .. } = *config;
        let clock = config.clock.clone();
        Journal { bucket, owner, lease, clock, pause, queue, ended }
    }

    /// Stores changes. They are durable once this returns.
    pub(super) fn append(&self, changes: Vec<Change>) -> Result<(), JournalError> {
        let queued = self.queue(changes);
        self.wait(&queued)
    }

    /// Queues changes, in the order in which they will be stored. The caller must wait for them.
    pub(super) fn queue(&self, changes: Vec<Change>) -> Queued {
        let mut queue = self.lock();
        queue.changes.extend(changes);
        queue.queued += 1;
        Queued(queue.queued)
    }

    /// Returns once the queued changes are durable. Callers that wait at the same time share an entry.
    pub(super) fn wait(&self, queued: &Queued) -> Result<(), JournalError> {
        let mut queue = self.lock();
        while queue.tried < queued.0 {
            queue = match queue.is_writing {
                true => self.ended.wait(queue).unwrap_or_else(PoisonError::into_inner),
                false => self.write(queue),
            };
        }
        if !queue.failed.remove(&queued.0) {
            return Ok(());
        }
        Err(match &queue.broken {
            Some(broken) => JournalError::Broken(broken.clone()),
            None => JournalError::Unreachable("the object store does not answer".into()),
        })
    }

    /// Stores all queued changes as one entry.
    fn write<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let changes = std::mem::take(&mut queue.changes);
        let (first, last) = (queue.tried + 1, queue.queued);
        let pauses = queue.pauses_until.is_some_and(|until| Instant::now() < until);
        let is_lasting = if queue.broken.is_some() || queue.is_ended || pauses {
            false
        } else {
            queue.is_writing = true;
            let is_lasting;
            (queue, is_lasting) = self.store(queue, changes);
            queue.is_writing = false;
            is_lasting
        };
        queue.tried = last;
        if !is_lasting {
            queue.failed.extend(first..=last);
        }
        self.ended.notify_all();
        queue
    }

    /// Stores an entry under the first free number. Returns whether it is durable.
    fn store<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        changes: Vec<Change>,
    ) -> (MutexGuard<'a, Queue>, bool) {
        let mut entry = JournalEntry { number: queue.state.next, owner: self.owner, changes };
        loop {
            let lease_end = queue.lease_end;
            drop(queue);
            let begun = self.clock.now();
            let mut attempt = create(&*self.bucket, &entry);
            // After the lease's end another owner may have written more, and removed the entry that stood at this
            // number.
            if matches!(attempt, Attempt::Stored | Attempt::IsEarlier(_))
                && self.clock.now() >= lease_end
            {
                attempt = match is_longer(&*self.bucket, (entry.number + 1, entry.number)) {
                    Ok(true) => Attempt::IsOthers,
                    Ok(false) => attempt,
                    Err(error) => Attempt::Failed(error),
                };
            }
            queue = self.lock();
            match attempt {
                Attempt::Stored => {
                    queue.state.take(entry);
                    queue.lease_end = begun + self.lease;
                    return (queue, true);
                }
                Attempt::IsEarlier(earlier) => {
                    queue.state.take(earlier);
                    entry.number = queue.state.next;
                }
                Attempt::IsOthers => {
                    tracing::error!("another process has taken a prefix of the object store over");
                    let broken = Broken("another process has taken the prefix over".into());
                    queue.broken = Some(broken);
                    return (queue, false);
                }
                Attempt::Failed(error) => {
                    tracing::warn!(%error, "the object store did not take a change");
                    queue.pauses_until = Some(Instant::now() + self.pause);
                    return (queue, false);
                }
            }
        }
    }

    /// Whether this process may serve: its lease runs, so no other process can own the prefix.
    pub(super) fn may_serve(&self) -> bool {
        let queue = self.lock();
        queue.broken.is_none() && !queue.is_ended && self.clock.now() < queue.lease_end
    }

    /// Whether it is time for an empty entry that renews the lease.
    pub(super) fn is_renewal_due(&self) -> bool {
        let left = self.lock().lease_end.saturating_sub(self.clock.now());
        left < self.lease * 2 / 3
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    /// The last stored note.
    pub(super) fn note(&self) -> Option<Vec<u8>> {
        self.lock().state.note.clone()
    }

    /// Stores a checkpoint if many entries came after the last one, and removes the objects that it replaces.
    pub(super) fn keep_short(&self) -> io::Result<()> {
        let checkpoint = {
            let queue = self.lock();
            if queue.state.next - queue.checkpoint <= MOST_ENTRIES {
                return Ok(());
            }
            queue.state.checkpoint(self.owner)
        };
        let number = checkpoint.number;
        match self.bucket.create(&name_of(CHECKPOINTS, number), checkpoint.encode()) {
            // An earlier attempt created it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        self.lock().checkpoint = number;
        let mut needless = Vec::new();
        for (folder, end) in [(JOURNAL, number + 1), (CHECKPOINTS, number)] {
            let listed = self.bucket.list(folder)?.into_iter().map(|it| it.name);
            needless.extend(listed.filter(|name| number_of(name).is_some_and(|it| it < end)));
        }
        self.bucket.remove_all(&needless)
    }

    /// Stores the last entry, which releases the prefix. Later changes are refused.
    pub(super) fn release(&self) {
        // If this fails, the next process waits until it sees that this one is dead or silent.
        let _ = self.append(vec![Change::Released]);
        self.lock().is_ended = true;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates an entry unless its number is taken.
fn create(bucket: &dyn Bucket, entry: &JournalEntry) -> Attempt {
    let (name, bytes) = (name_of(JOURNAL, entry.number), entry.encode());
    match bucket.create(&name, bytes) {
        Ok(()) => return Attempt::Stored,
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Attempt::Failed(error);
        }
        Err(_) => {}
    }
    let found = match bucket.get(&name) {
        Err(error) => return Attempt::Failed(error),
        Ok(found) => found,
    };
    match found.as_deref().map(JournalEntry::decode) {
        Some(Some(found)) if found == *entry => Attempt::Stored,
        Some(Some(found)) if found.owner == entry.owner => Attempt::IsEarlier(found),
        Some(_) => Attempt::IsOthers,
        // Either a later owner removed the entry behind a checkpoint, or another attempt to create it is still under
        // way.
        None => match is_longer(bucket, (entry.number + 1, entry.number)) {
            Ok(true) => Attempt::IsOthers,
            Ok(false) => Attempt::Failed(io::Error::other("another attempt is under way")),
            Err(error) => Attempt::Failed(error),
        },
    }
}

/// Whether a journal has an entry at or after the first number, or a checkpoint at or after the second.
pub(super) fn is_longer(bucket: &dyn Bucket, (entry, checkpoint): (u64, u64)) -> io::Result<bool> {
    let reaches = |folder: &str, least: u64| -> io::Result<bool> {
        let listed = bucket.list(folder)?;
        Ok(listed.iter().filter_map(|it| number_of(&it.name)).any(|it| it >= least))
    };
    Ok(reaches(JOURNAL, entry)? || reaches(CHECKPOINTS, checkpoint)?)
}

/// Creates the entry by which a process becomes the owner. Returns false if another process was faster.
pub(super) fn claim(bucket: &dyn Bucket, entry: &JournalEntry) -> io::Result<bool> {
    match create(bucket, entry) {
        Attempt::Stored => Ok(true),
        Attempt::IsEarlier(_) | Attempt::IsOthers => Ok(false),
        Attempt::Failed(error) => Err(error),
    }
}
