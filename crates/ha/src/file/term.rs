use mooncake_types::Epoch;

use super::claim_file::ClaimFile;
use super::folder::{Folder, MAX_RECORD_BYTES};
use crate::backend::Term;
use crate::{CoordinatorError, Record};

/// The two files of a leader.
#[derive(Debug)]
pub(super) struct FileTerm {
    folder: Folder,
    file: ClaimFile,
    epoch: u64,
    /// Until the claim has led to a leadership, it is taken away again when this goes.
    is_kept: bool,
}

impl FileTerm {
    pub(super) fn new(folder: Folder, file: ClaimFile, epoch: u64) -> Self {
        Self { folder, file, epoch, is_kept: false }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn keep(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Does something first, and only then looks for higher numbers: whoever has one did not see it done, or is seen.
    pub(super) fn then_look_up(
        &self,
        act: impl FnOnce() -> Result<(), CoordinatorError>,
    ) -> Result<(), CoordinatorError> {
        act()?;
        self.look_up()
    }

    /// Ends the term if somebody has a higher number.
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
