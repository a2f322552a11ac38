use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mooncake_memory::{make_owner_folder, owner_only};
use mooncake_types::Epoch;

use crate::backend::{Term, Won};
use crate::epoch::epoch_of_now;
use crate::{CoordinatorError, Leadership, Record, StateFileError, boot_time, durable, options};

/// Largest file that is read or written, in bytes: all segments that a master serves.
const MAX_FILE_BYTES: usize = 8 << 20;

/// The record of a single master, in a file of its host.
///
/// While the master leads, it holds a lock on a file beside it that ends in `.lock`.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    cluster_id: String,
    _lock: File,
}

impl StateFile {
    /// Leads with the record of a file, without an election and without a lease. Creates the file if it is missing,
    /// with the folders above it. The new epoch is in the file when this returns.
    ///
    /// # Errors
    /// The file cannot be used. Every error names the file, which stays as it is.
    pub fn lead(path: &Path, cluster_id: &str) -> Result<Leadership, StateFileError> {
        options::check_cluster_id(cluster_id).map_err(|error| StateFileError::Unusable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let file = Self::lock(path, cluster_id)?;
        let record = file.read()?.succeed(epoch_of_now());
        file.replace(&record).map_err(|error| file.unusable(error))?;
        let won = Won { term: Box::new(file), record, asked_at: boot_time::now() };
        Ok(Leadership::begin(won, None))
    }

    fn lock(path: &Path, cluster_id: &str) -> Result<Self, StateFileError> {
        let path = path.to_owned();
        let opened = make_folder(&path).and_then(|()| {
            let lock_path = beside(&path, ".lock");
            owner_only().create(true).truncate(false).write(true).open(lock_path)
        });
        let lock = match opened {
            Ok(lock) => lock,
            Err(error) => return Err(StateFileError::Unusable { path, reason: error.to_string() }),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, cluster_id: cluster_id.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(StateFileError::InUse { path }),
            Err(TryLockError::Error(error)) => {
                Err(StateFileError::Unusable { path, reason: error.to_string() })
            }
        }
    }

    fn unusable(&self, error: impl ToString) -> StateFileError {
        StateFileError::Unusable { path: self.path.clone(), reason: error.to_string() }
    }

    fn read(&self) -> Result<Record, StateFileError> {
        let corrupt = |reason| StateFileError::Corrupt { path: self.path.clone(), reason };
        match durable::read(&self.path, MAX_FILE_BYTES) {
            Ok(None) => Ok(Record::empty()),
            Ok(Some(text)) => Record::decode(&text, &self.cluster_id).map_err(corrupt),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => {
                Err(corrupt(format!("it is larger than {MAX_FILE_BYTES} bytes")))
            }
            Err(error) => Err(self.unusable(error)),
        }
    }

    fn replace(&self, record: &Record) -> io::Result<()> {
        let text = record.encode(&self.cluster_id);
        if text.len() > MAX_FILE_BYTES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        durable::replace(&self.path, &beside(&self.path, ".new"), text.as_bytes())
    }
}

fn make_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) => make_owner_folder(folder),
        None => Ok(()),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Term for StateFile {
    fn renew(&self) -> Result<(), CoordinatorError> {
        Ok(())
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let place = self.path.display().to_string();
        self.replace(record).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => {
                let (len_bytes, limit_bytes) = (record.about_bytes(), MAX_FILE_BYTES);
                CoordinatorError::Full { place, len_bytes, limit_bytes }
            }
            _ => CoordinatorError::unavailable(place, error),
        })
    }

    fn limit_bytes(&self) -> usize {
        MAX_FILE_BYTES
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        Ok(())
    }
}

/// The term of a leadership whose record ends with the process.
#[derive(Debug)]
struct NoFile;

impl Term for NoFile {
    fn renew(&self) -> Result<(), CoordinatorError> {
        Ok(())
    }

    fn write(&self, _: &Record) -> Result<(), CoordinatorError> {
        Ok(())
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        Ok(())
    }
}

impl Leadership {
    /// The leadership of a single master that keeps no record: its successor knows nothing of its members.
    #[must_use]
    pub fn unrecorded() -> Self {
        let record = Record::empty().succeed(epoch_of_now());
        debug_assert!(record.epoch() > Epoch(0));
        Self::begin(Won { term: Box::new(NoFile), record, asked_at: boot_time::now() }, None)
    }
}
