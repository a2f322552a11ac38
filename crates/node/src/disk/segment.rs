use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mooncake_tier::{Folder, Usage};
use mooncake_transfer::{Interrupt, ReadTicket, WriteTicket};
use mooncake_types::{ClientId, Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId};

use super::error::OpenDiskError;
use crate::ledger::Ledger;
use crate::shell::SegmentShell;

/// Which disk is wanted.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// The cluster that it is for.
    pub cluster: String,
    /// Bytes that its files take at most. Less than that is lent, see [`DiskSegment::len_bytes`].
    pub capacity_bytes: u64,
    /// What the node is to the master if the disk is a new one.
    pub client: ClientId,
    /// Whether the node is that whatever the disk says: a disk of another client starts empty then.
    pub is_client_settled: bool,
    /// Which segment it is if it is a new one, or starts empty.
    pub segment: SegmentId,
    /// Bytes of memory that all reads and writes under way take at most. No object longer than that lies on the disk.
    pub staging_bytes: u64,
    /// A number that nobody can guess.
    pub seed: u64,
}

/// One lent segment whose bytes lie in a folder.
pub struct DiskSegment {
    options: DiskOptions,
    ledger: Ledger,
    _folder: Folder,
}

impl DiskSegment {
    /// Opens the disk in a folder, or makes it, with all that earlier processes completed in it. No other process can use
    /// the folder while this lives.
    ///
    /// # Errors
    /// Why the folder cannot be this disk; nothing has changed in it then.
    pub fn open(path: &Path, options: DiskOptions) -> Result<Self, OpenDiskError> {
        let folder = Folder::open(path, &options.cluster)?;
        let ledger = Ledger::new(options.capacity_bytes);
        Ok(Self { options, ledger, _folder: folder })
    }

    /// What the node is to the master: what the folder kept, or what it was given when it was new.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.options.client
    }

    /// The segment's incarnation.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.options.segment
    }

    /// How many processes have lent it, this one included.
    #[must_use]
    pub fn run(&self) -> u64 {
        1
    }

    /// Bytes of its address space: what the master may grant.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.ledger.len()
    }

    /// What its files hold.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage::default()
    }

    /// Whether the disk has failed: nothing is written or dropped any more, and the segment is to be taken back. The next
    /// process that opens it finds it empty, under a new id.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        false
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.ledger)
    }
}

impl SegmentShell for DiskSegment {
    fn epoch(&self) -> Epoch {
        Epoch(0)
    }

    fn obey(&self, _epoch: Epoch) {}

    fn start_empty(&self, _id: SegmentId) {}

    fn take_back(&self) {}

    fn begin_write(
        &self,
        _write: (Epoch, &RangeWrite<'_>),
        _writer: Arc<dyn Interrupt>,
        _patience: Duration,
    ) -> Result<WriteTicket, ErrorCode> {
        Err(ErrorCode::NotSupported)
    }

    fn complete_write(&self, _ticket: WriteTicket, _checksums: Vec<u32>) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotSupported)
    }

    fn abandon_write(&self, _ticket: WriteTicket) {}

    fn begin_read(&self, _range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        Err(ErrorCode::ObjectNotFound)
    }

    fn drop_entry(&self, _range: &RangeDrop) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotSupported)
    }

    fn still_holds(&self, _ticket: &ReadTicket) -> bool {
        false
    }

    fn learn_checksums(&self, _ticket: &ReadTicket, _checksums: &[u32]) -> bool {
        false
    }
}
