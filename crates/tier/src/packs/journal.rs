//! The journal of a prefix: numbered objects, each created only if it is not there yet.
//!
//! That makes one process at a time the owner. Who takes a prefix over creates the next entry, a claim. The owner before it finds
//! out when it creates that number itself, and writes nothing more. So no change is acknowledged that the next owner has not read.
//!
//! Serving needs a time: an owner serves for the length of a lease after it began to store its last entry, and so it stores one
//! now and then. A process takes a prefix over only after it has seen no new entry for longer than that.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::config::PacksConfig;
use super::entry::{Change, Entry, JournalState};
use super::names::{CHECKPOINTS, JOURNAL, name_of, number_of};
use crate::bucket::Bucket;
use crate::errors::{Broken, PutError};

/// Most entries after a checkpoint: a start reads each of them.
const MOST_ENTRIES: u64 = if cfg!(test) { 16 } else { 256 };

/// The end of a journal that this process owns.
pub(super) struct Journal {
    bucket: Arc<dyn Bucket>,
    /// The random number of this process.
    owner: u64,
    lease: Duration,
    pause: Duration,
    queue: Mutex<Queue>,
    /// An attempt to store an entry has ended.
    ended: Condvar,
}

struct Queue {
    /// What all entries come to that are stored.
    state: JournalState,
    /// The entry up to which the last checkpoint goes.
    checkpoint: u64,
    changes: Vec<Change>,
    /// How often changes were queued, and how much of it was tried.
    queued: u64,
    tried: u64,
    /// Which of it failed, as long as its caller has not heard so.
    failed: BTreeSet<u64>,
    is_writing: bool,
    lease_end: Instant,
    pauses_until: Option<Instant>,
    is_ended: bool,
    broken: Option<Broken>,
}

/// What was queued, to be waited for once.
#[must_use]
pub(super) struct Queued(u64);

/// Why changes were not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JournalError {
    /// The store does not answer. They may be stored all the same, and are to be repeated.
    Unreachable(Arc<str>),
    /// The prefix has another owner: they are not stored.
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

/// How an attempt to store an entry ended.
enum Attempt {
    Stored,
    /// The number holds an earlier entry of this process, of which nobody knew whether it was stored.
    IsEarlier(Entry),
    IsOthers,
    Failed(io::Error),
}

impl Journal {
    /// Of a prefix that this process claimed by the last entry, which it began to store at `since`.
    pub(super) fn new(
        bucket: Arc<dyn Bucket>,
        (state, checkpoint): (JournalState, u64),
        (since, config): (Instant, &PacksConfig),
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
        Journal { bucket, owner, lease, pause, queue, ended }
    }

    /// Stores changes. They last once this returns.
    pub(super) fn append(&self, changes: Vec<Change>) -> Result<(), JournalError> {
        let queued = self.queue(changes);
        self.wait(&queued)
    }

    /// Queues changes: those that are queued later are stored later. The caller waits for them.
    pub(super) fn queue(&self, changes: Vec<Change>) -> Queued {
        let mut queue = self.lock();
        queue.changes.extend(changes);
        queue.queued += 1;
        Queued(queue.queued)
    }

    /// Returns once what was queued lasts. Callers that wait at the same time share an entry.
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

    /// Stores all that is queued as one entry.
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

    /// Stores an entry under the first number that is free. Whether it lasts.
    fn store<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        changes: Vec<Change>,
    ) -> (MutexGuard<'a, Queue>, bool) {
        let mut entry = Entry { number: queue.state.next, owner: self.owner, changes };
        loop {
            let lease_end = queue.lease_end;
            drop(queue);
            let begun = Instant::now();
            let mut attempt = create(&*self.bucket, &entry);
            // Beyond its lease another owner may have come, written more, and removed the entry in the place of this one.
            if matches!(attempt, Attempt::Stored | Attempt::IsEarlier(_))
                && Instant::now() >= lease_end
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

    /// Whether no other process can own the prefix.
    pub(super) fn may_serve(&self) -> bool {
        let queue = self.lock();
        queue.broken.is_none() && !queue.is_ended && Instant::now() < queue.lease_end
    }

    /// Whether it is time for an entry that only says that the owner lives.
    pub(super) fn is_renewal_due(&self) -> bool {
        let left = self.lock().lease_end.saturating_duration_since(Instant::now());
        left < self.lease * 2 / 3
    }

    pub(super) fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    /// The note that lasts.
    pub(super) fn note(&self) -> Option<Vec<u8>> {
        self.lock().state.note.clone()
    }

    /// Stores a checkpoint if many entries came after the last one, and removes what it makes needless.
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
            // An attempt before this one made it.
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

    /// The last entry. Nothing is stored any more.
    pub(super) fn release(&self) {
        // Otherwise the next process waits until it sees that this one is gone.
        let _ = self.append(vec![Change::Released]);
        self.lock().is_ended = true;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates an entry unless there is one of its number.
fn create(bucket: &dyn Bucket, entry: &Entry) -> Attempt {
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
    match found.as_deref().map(Entry::decode) {
        Some(Some(found)) if found == *entry => Attempt::Stored,
        Some(Some(found)) if found.owner == entry.owner => Attempt::IsEarlier(found),
        Some(_) => Attempt::IsOthers,
        // A later owner removed it behind a checkpoint. Or another attempt to create it is still under way, which is a conflict too.
        None => match is_longer(bucket, (entry.number + 1, entry.number)) {
            Ok(true) => Attempt::IsOthers,
            Ok(false) => Attempt::Failed(io::Error::other("another attempt is under way")),
            Err(error) => Attempt::Failed(error),
        },
    }
}

/// Whether a journal has an entry from the first number on, or a checkpoint from the second on.
pub(super) fn is_longer(bucket: &dyn Bucket, (entry, checkpoint): (u64, u64)) -> io::Result<bool> {
    let reaches = |folder: &str, least: u64| -> io::Result<bool> {
        let listed = bucket.list(folder)?;
        Ok(listed.iter().filter_map(|it| number_of(&it.name)).any(|it| it >= least))
    };
    Ok(reaches(JOURNAL, entry)? || reaches(CHECKPOINTS, checkpoint)?)
}

/// Creates the entry by which a process becomes the owner. False if another was faster.
pub(super) fn claim(bucket: &dyn Bucket, entry: &Entry) -> io::Result<bool> {
    match create(bucket, entry) {
        Attempt::Stored => Ok(true),
        Attempt::IsEarlier(_) | Attempt::IsOthers => Ok(false),
        Attempt::Failed(error) => Err(error),
    }
}
