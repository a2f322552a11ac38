use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use mooncake_types::Epoch;

use super::claim_file::{self, ClaimFile, ClaimState};
use super::watch::FolderWatch;
use crate::backend::Claim;
use crate::{CoordinatorError, LeaderView, Options, Record, durable};

/// Largest record that is read or written, in bytes: all segments that a master serves.
pub(super) const MAX_RECORD_BYTES: usize = 8 << 20;

/// The number of an empty record, which is written before the first claim. A folder with claims but no record has
/// lost records.
pub(super) const EMPTY_RECORD: u64 = 0;

/// Numbers above this are no epochs.
const HIGHEST_NUMBER: u64 = 1 << 62;

/// Most names in the folder. There are only a few, unless other programs use it too.
const MAX_NAMES: usize = 10_000;

/// Pauses between reads of the folder after an event.
const AFTER_NEWS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(3), Duration::from_millis(10)];

/// A folder on this host, with one folder in it for each cluster.
#[derive(Clone, Debug)]
pub(crate) struct FolderBackend {
    pub(super) path: PathBuf,
    cluster_id: String,
    ttl: Duration,
}

/// The numbers of the files in a folder, in rising order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) claims: Vec<u64>,
    pub(super) records: Vec<u64>,
    pub(super) leftovers: Vec<PathBuf>,
}

impl Listing {
    /// The highest number of all.
    pub(super) fn highest(&self) -> u64 {
        self.claims.last().max(self.records.last()).copied().unwrap_or(0)
    }

    fn add(&mut self, name: &str, path: PathBuf) {
        if let Some(number) = name.strip_prefix("leader.").and_then(|text| text.parse().ok()) {
            self.claims.push(number);
        } else if let Some(number) = name.strip_prefix("record.").and_then(|text| text.parse().ok())
        {
            self.records.push(number);
        } else if name.starts_with("new.") {
            self.leftovers.push(path);
        }
    }
}

impl FolderBackend {
    pub(crate) fn new(path: &Path, options: &Options) -> Self {
        let cluster_id = options.cluster_id.clone();
        Self { path: path.join(&cluster_id), cluster_id, ttl: options.ttl }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.ttl
    }

    pub(super) fn failed(&self, error: impl ToString) -> CoordinatorError {
        CoordinatorError::unavailable(self.path.display(), error)
    }

    pub(super) fn claim_path(&self, epoch: u64) -> PathBuf {
        self.path.join(format!("leader.{epoch:020}"))
    }

    pub(super) fn record_path(&self, epoch: u64) -> PathBuf {
        self.path.join(format!("record.{epoch:020}"))
    }

    /// The files of the folder; none if there is no folder.
    pub(super) fn list(&self) -> Result<Listing, CoordinatorError> {
        let mut listing = Listing::default();
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(listing),
            Err(error) => return Err(self.failed(error)),
        };
        for (count, entry) in entries.enumerate() {
            if count >= MAX_NAMES {
                let reason = format!("the folder holds more than {MAX_NAMES} files");
                return Err(CoordinatorError::corrupt(self.path.display(), reason));
            }
            let entry = entry.map_err(|error| self.failed(error))?;
            listing.add(&entry.file_name().to_string_lossy(), entry.path());
        }
        listing.claims.sort_unstable();
        listing.records.sort_unstable();
        match listing.highest() {
            0..=HIGHEST_NUMBER => Ok(listing),
            number => {
                let reason = format!("{number} is no epoch");
                Err(CoordinatorError::corrupt(self.path.display(), reason))
            }
        }
    }

    /// The leader, if one of these claims has been won and its lease is not over.
    pub(super) fn find_leader(
        &self,
        claims: &[u64],
    ) -> Result<Option<LeaderView>, CoordinatorError> {
        Ok(self.find_lease(claims)?.map(|(leader, _)| leader))
    }

    /// Like [`Self::find_leader`], with the time for which it leads if it does not renew its lease.
    fn find_lease(
        &self,
        claims: &[u64],
    ) -> Result<Option<(LeaderView, Duration)>, CoordinatorError> {
        for &epoch in claims.iter().rev() {
            if let ClaimState::Leads(holder, left) =
                claim_file::read_state(&self.claim_path(epoch))?
            {
                return Ok(Some((holder.view(), left)));
            }
        }
        Ok(None)
    }

    /// Waits for an event in the folder, or for the end of the leader's lease. Returns at once if the leader is not
    /// `seen`.
    pub(super) fn rest_until_news(&self, seen: &LeaderView, most: Duration) -> io::Result<()> {
        let watch = FolderWatch::begin(&self.path)?;
        let leader = || {
            let listing = self.list().map_err(io::Error::other)?;
            self.find_lease(&listing.claims).map_err(io::Error::other)
        };
        let left = match leader()? {
            Some((leader, left)) if leader == *seen => left,
            _ => return Ok(()),
        };
        if !watch.wait(most.min(left))? {
            return Ok(());
        }
        // The file of a leader that dies is closed a moment before its lock is free.
        for pause in AFTER_NEWS {
            thread::sleep(pause);
            if leader()?.is_none_or(|(leader, _)| leader != *seen) {
                break;
            }
        }
        Ok(())
    }

    /// The record that the leader of this epoch wrote; `None` if there is no such file.
    fn read_record(&self, epoch: u64) -> Result<Option<Record>, CoordinatorError> {
        let path = self.record_path(epoch);
        let corrupt = |reason: String| CoordinatorError::corrupt(path.display(), reason);
        match durable::read(&path, MAX_RECORD_BYTES) {
            Ok(None) => Ok(None),
            Ok(Some(_)) if epoch == EMPTY_RECORD => Ok(Some(Record::empty())),
            Ok(Some(text)) => match Record::decode(&text, &self.cluster_id) {
                Ok(record) if record.epoch().0 >= epoch => Ok(Some(record)),
                Ok(record) => Err(corrupt(format!("it is that of epoch {}", record.epoch()))),
                Err(reason) => Err(corrupt(reason)),
            },
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                Err(corrupt(format!("it is larger than {MAX_RECORD_BYTES} bytes")))
            }
            Err(error) => Err(CoordinatorError::unavailable(path.display(), error)),
        }
    }

    /// The newest record below an epoch; `None` if it was removed meanwhile, because another master leads.
    pub(super) fn newest_record(&self, below: u64) -> Result<Option<Record>, CoordinatorError> {
        let mut listing = self.list()?;
        loop {
            if let Some(&epoch) = listing.records.iter().rev().find(|&&epoch| epoch < below) {
                return self.read_record(epoch);
            }
            if listing.highest() > below {
                return Ok(None);
            }
            // A listing is no snapshot: it can miss the old record and the new one while a master replaces it.
            let later = self.list()?;
            if later == listing {
                let reason = "leaders were here, but no record of theirs";
                return Err(CoordinatorError::corrupt(self.path.display(), reason));
            }
            listing = later;
        }
    }

    pub(super) fn write_record(&self, epoch: u64, record: &Record) -> Result<(), CoordinatorError> {
        let path = self.record_path(epoch);
        let text = record.encode(&self.cluster_id);
        let (len_bytes, limit_bytes) = (text.len(), MAX_RECORD_BYTES);
        if len_bytes > limit_bytes {
            let place = path.display().to_string();
            return Err(CoordinatorError::Full { place, len_bytes, limit_bytes });
        }
        let by_way_of = self.path.join(format!("new.record.{epoch:020}"));
        durable::replace(&path, &by_way_of, text.as_bytes())
            .map_err(|error| CoordinatorError::unavailable(path.display(), error))
    }

    /// Creates the claim of an epoch; `None` if another master has it.
    pub(super) fn make_claim(&self, claim: &Claim, epoch: u64) -> io::Result<Option<ClaimFile>> {
        let by_way_of = self.path.join(format!("new.{}", claim.token));
        let mut made = ClaimFile::prepare(&by_way_of, &claim.holder(Epoch(epoch)), self.ttl)?;
        Ok(made.link(&self.claim_path(epoch))?.then_some(made))
    }
}
