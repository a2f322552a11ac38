use mooncake_types::Epoch;

use super::claim_file::ClaimFile;
use super::folder::{FolderBackend, MAX_RECORD_BYTES};
use crate::backend::Term;
use crate::{CoordinatorError, Record};

/// The two files of a leader.
#[derive(Debug)]
pub(super) struct FileTerm {
    folder: FolderBackend,
    file: ClaimFile,
    epoch: u64,
    /// Whether the claim has become a leadership. If not, dropping this removes it.
    is_kept: bool,
}

impl FileTerm {
    pub(super) fn new(folder: FolderBackend, file: ClaimFile, epoch: u64) -> Self {
        Self { folder, file, epoch, is_kept: false }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn keep(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Acts first, and only then looks for higher numbers. So a successor either sees the act, or is seen.
    pub(super) fn then_look_up(
        &self,
        act: impl FnOnce() -> Result<(), CoordinatorError>,
    ) -> Result<(), CoordinatorError> {
        act()?;
        self.look_up()
    }

    /// Fails if there is a higher number: then the term is over.
    fn look_up(&self) -> Result<(), CoordinatorError> {
        let highest = self.folder.list()?.highest();
        if highest <= self.epoch {
            return Ok(());
        }
        let reason = format!("epoch {highest} has begun");
        Err(CoordinatorError::Deposed { epoch: Epoch(self.epoch), reason })
    }
}

impl Term for FileTerm {
    fn renew(&self) -> Result<(), CoordinatorError> {
        let stamp = || self.file.stamp(self.folder.ttl());
        self.then_look_up(|| stamp().map_err(|error| self.folder.failed(error)))
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        self.then_look_up(|| self.folder.write_record(self.epoch, record))
    }

    fn limit_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        self.file.remove().map_err(|error| self.folder.failed(error))
    }
}

impl Drop for FileTerm {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.file.remove();
        }
    }
}
