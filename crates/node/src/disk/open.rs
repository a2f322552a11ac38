//! Opening a disk: which client and segment it belongs to, and which records are on it.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use mooncake_tier::{
    Bucket, Directory, DiskConfig, FileStore, FilesConfig, Folder, LogStore, Notes, PackStore,
    PacksConfig, Record, RecordId, RecordStore,
};
use mooncake_types::{ClientId, Epoch, Medium, RangeWrite, Seal, SegmentId, limits};

use super::error::OpenDiskError;
use super::identity::Identity;
use super::segment::DiskSegment;
use super::staging::Staging;
use crate::ledger::Ledger;
use crate::machine::SegmentMachine;

/// How to open a disk.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// How records are stored.
    pub kind: DiskKind,
    /// The cluster that the disk belongs to.
    pub cluster: String,
    /// Most bytes that its files take. Fewer are lent, see [`DiskSegment::len_bytes`].
    pub capacity_bytes: u64,
    /// The client id of the node, if the disk is new.
    pub client: ClientId,
    /// Whether `client` replaces the client id that the disk names. A [`DiskKind::Log`] of another client then
    /// starts empty. If false, the node takes the disk's client id.
    pub is_client_settled: bool,
    /// The id of the segment, if the disk is new or starts empty.
    pub segment: SegmentId,
    /// Most bytes of memory for all reads and writes under way. No object on the disk is longer.
    pub staging_bytes: u64,
    /// A random number that seeds the random numbers in the log's files.
    pub seed: u64,
}

/// Number of files in a log, unless they would be longer than [`MOST_FILE_BYTES`].
const FILES: u64 = 16;
/// The longest file of a log. A written range must fit into one.
const MOST_FILE_BYTES: u64 = 256 << 20;
/// The shortest file of a log.
const LEAST_FILE_BYTES: u64 = 64 << 10;
/// Lengths are multiples of this.
const BLOCK: u64 = 4096;

/// Lengths of a disk with a given capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    file_bytes: u64,
    /// Length of the segment.
    len_bytes: u64,
}

impl Layout {
    fn of(kind: DiskKind, capacity_bytes: u64) -> Result<Layout, OpenDiskError> {
        let least_bytes = FILES * LEAST_FILE_BYTES;
        if capacity_bytes < least_bytes {
            return Err(OpenDiskError::TooSmall { capacity_bytes, least_bytes });
        }
        let file_bytes = (capacity_bytes / FILES).min(MOST_FILE_BYTES) / BLOCK * BLOCK;
        // One file is open, and one is for records that move. Four fifths of the rest are lent. With a fifth of
        // holes, a file that is reclaimed is usually at most two thirds full. So each byte is written at most
        // three times.
        let len_bytes = match kind {
            DiskKind::Log => (capacity_bytes - 2 * file_bytes) / 5 * 4 / BLOCK * BLOCK,
            // Masters count headers and padding. The remainder is for keys that are longer than usual.
            DiskKind::Files { .. } => (capacity_bytes - capacity_bytes / 32) / BLOCK * BLOCK,
            // An object store has room: this bounds the live bytes in it.
            DiskKind::Packs => capacity_bytes / BLOCK * BLOCK,
        };
        Ok(Layout { file_bytes, len_bytes })
    }
}

/// How records are stored in a folder or an object store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskKind {
    /// In a log, on a disk of the node.
    Log,
    /// In files of their own, on a disk that hosts share.
    Files {
        /// Whether the oldest records are erased to make room for new ones.
        evicts: bool,
    },
    /// In packs: many in each object of an object store.
    Packs,
}

impl DiskKind {
    const fn medium(self) -> Medium {
        match self {
            Self::Log => Medium::Disk,
            Self::Files { .. } => Medium::SharedDisk,
            Self::Packs => Medium::ObjectStore,
        }
    }
}

impl DiskSegment {
    /// Opens the disk in a folder, or creates it, with all entries that earlier processes completed. No other
    /// process can use the folder while this lives.
    ///
    /// # Errors
    /// [`OpenDiskError`] says why the folder cannot be this disk.
    pub fn open(path: &Path, options: DiskOptions) -> Result<Self, OpenDiskError> {
        Layout::of(options.kind, options.capacity_bytes)?;
        let folder = match options.kind {
            DiskKind::Files { .. } => Folder::open_hashed(path, &options.cluster)?,
            DiskKind::Log | DiskKind::Packs => Folder::open(path, &options.cluster)?,
        };
        let mut opened = Self::open_directory(Arc::new(folder), options)?;
        opened.folder = Some(path.to_owned());
        Ok(opened)
    }

    /// The client whose files lie in a folder, even if another process uses it. `None` if the note cannot be
    /// read.
    #[must_use]
    pub fn client_in(path: &Path) -> Option<ClientId> {
        let note = Folder::note_in(path).ok().flatten()?;
        Identity::decode(&note).map(|identity| identity.client)
    }

    /// As [`DiskSegment::open`], for files that are reached through a [`Directory`].
    ///
    /// # Errors
    /// As there.
    pub fn open_directory(
        directory: Arc<dyn Directory>,
        options: DiskOptions,
    ) -> Result<Self, OpenDiskError> {
        let staging = staging(&options)?;
        let empty = || match options.kind {
            DiskKind::Files { .. } => FileStore::empty(&*directory),
            DiskKind::Log | DiskKind::Packs => LogStore::empty(&*directory),
        };
        let identity = adopt(&*directory, &options, empty)?;
        let mut records = Vec::new();
        let disk = open_records(&directory, &options, identity.nonce(), &mut records)?;
        Self::restore((disk, directory), (identity, staging), records, &options)
    }

    /// Opens or creates a prefix of an object store, as [`DiskSegment::open`] does a folder.
    ///
    /// # Errors
    /// As there.
    pub fn open_bucket(
        bucket: Arc<dyn Bucket>,
        options: DiskOptions,
    ) -> Result<Self, OpenDiskError> {
        let options = DiskOptions { kind: DiskKind::Packs, ..options };
        let staging = staging(&options)?;
        let longest_record = options.staging_bytes.min(MOST_FILE_BYTES);
        let config = PacksConfig::usual(longest_record, options.seed);
        let mut records = Vec::new();
        let packs = PackStore::open(bucket, config, |record| records.push(record))?;
        let identity = adopt(&packs, &options, || {
            records.clear();
            packs.clear()
        })?;
        let packs = Arc::new(packs);
        Self::restore((Arc::clone(&packs) as _, packs), (identity, staging), records, &options)
    }

    /// A segment with the records in its store.
    fn restore(
        (disk, notes): (Arc<dyn RecordStore>, Arc<dyn Notes>),
        (identity, staging): (Identity, Arc<Staging>),
        mut records: Vec<Record>,
        options: &DiskOptions,
    ) -> Result<Self, OpenDiskError> {
        let layout = Layout::of(options.kind, options.capacity_bytes)?;
        let mut restored = Restored::new(layout.len_bytes);
        // Of overlapping records the newest counts. When the process ended, the writers of the older ones were
        // superseded.
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.name.grant));
        records.into_iter().for_each(|record| restored.restore(&record));
        disk.drop_records(&restored.stale)?;
        let Restored { mut ledger, names, .. } = restored;
        // A master that followed the earlier process must not take that process's change numbers for these.
        ledger.number_changes(crate::ledger::first_change(), limits::MAX_LEDGER_CHANGES);
        let machine = SegmentMachine::new(identity.segment, ledger, identity.epoch);
        let disk = (options.kind.medium(), disk);
        Ok(Self::of_parts((machine, names), disk, staging, (notes, identity)))
    }
}

fn staging(options: &DiskOptions) -> Result<Arc<Staging>, OpenDiskError> {
    Layout::of(options.kind, options.capacity_bytes)?;
    let bytes = options.staging_bytes;
    Staging::new(bytes).map_err(|error| OpenDiskError::Staging { bytes, error })
}

/// Opens the store of a folder's records, and collects all of them in `records`.
fn open_records(
    directory: &Arc<dyn Directory>,
    options: &DiskOptions,
    nonce: u64,
    records: &mut Vec<Record>,
) -> Result<Arc<dyn RecordStore>, OpenDiskError> {
    let DiskOptions { capacity_bytes: capacity, seed, .. } = *options;
    let file_bytes = Layout::of(options.kind, capacity)?.file_bytes;
    let told = |record| records.push(record);
    let directory = Arc::clone(directory);
    Ok(match options.kind {
        DiskKind::Files { evicts } => {
            let longest_record = capacity / FILES;
            let config = FilesConfig { capacity, longest_record, nonce, evicts };
            Arc::new(FileStore::open(directory, config, told)?)
        }
        DiskKind::Log | DiskKind::Packs => {
            Arc::new(LogStore::open(directory, DiskConfig { capacity, file_bytes, seed }, told)?)
        }
    })
}

/// Takes the disk over for this process. Erases a disk that cannot be kept, then writes the note.
fn adopt(
    notes: &dyn Notes,
    options: &DiskOptions,
    empty: impl FnOnce() -> std::io::Result<()>,
) -> Result<Identity, OpenDiskError> {
    let note = notes.note().map_err(OpenDiskError::Note)?;
    let kept = note.map(|note| Identity::decode(&note).ok_or(OpenDiskError::DamagedNote));
    let kept = kept.transpose()?;
    let reason = kept.as_ref().map_or(Some("it is new"), |kept| why_empty(kept, options));
    let (client, epoch) = kept.as_ref().map_or((options.client, Epoch(0)), |kept| {
        let client = if options.is_client_settled { options.client } else { kept.client };
        (client, kept.epoch)
    });
    // The highest run tells a master which of a client's processes is the latest.
    let own_run = |kept: &Identity| if kept.client == client { kept.run + 1 } else { 1 };
    let identity = match (reason, kept) {
        (None, Some(kept)) => Identity { run: own_run(&kept), client, ..kept },
        (reason, kept) => {
            if kept.is_some() {
                tracing::warn!(reason, "a disk starts empty");
            }
            empty().map_err(mooncake_tier::OpenError::from)?;
            let DiskOptions { segment, capacity_bytes, .. } = *options;
            let run = kept.as_ref().map_or(1, own_run);
            Identity { client, segment, run, epoch, capacity_bytes, is_broken: false }
        }
    };
    notes.set_note(&identity.encode()).map_err(OpenDiskError::Note)?;
    Ok(identity)
}

/// Why the disk must start empty; `None` if its records are kept.
fn why_empty(kept: &Identity, options: &DiskOptions) -> Option<&'static str> {
    if kept.is_broken {
        Some("it failed while an earlier process used it")
    } else if kept.capacity_bytes != options.capacity_bytes {
        Some("its size was changed")
    } else if let DiskKind::Files { .. } | DiskKind::Packs = options.kind {
        // If a process dies, the next one takes these over, on any host.
        None
    } else if options.is_client_settled && kept.client != options.client {
        Some("it was another client's, and this one has a named segment")
    } else {
        None
    }
}

/// The ledger that a disk's records give, restored from the newest grant to the oldest.
struct Restored {
    ledger: Ledger,
    /// The grant of each entry's record, by the offset of the entry.
    names: std::collections::BTreeMap<u64, mooncake_types::Version>,
    /// Records that a newer one overlaps, or that the ledger refuses.
    stale: Vec<RecordId>,
    /// Ranges of the stale records.
    stale_ranges: Vec<Range<u64>>,
}

impl Restored {
    fn new(len: u64) -> Self {
        let names = std::collections::BTreeMap::new();
        Self { ledger: Ledger::new(len), names, stale: Vec::new(), stale_ranges: Vec::new() }
    }

    /// Restores a record. Its grant must be older than those of all earlier calls.
    fn restore(&mut self, record: &Record) {
        let RecordId { grant, offset } = record.name;
        let range = offset..offset + record.len;
        let write = RangeWrite {
            segment: SegmentId(0),
            offset,
            from: 0,
            len: record.len,
            entry_len: record.len,
            key: &record.key,
            version: record.version,
            grant,
            object_len: record.object_len,
            object_offset: record.object_offset,
            attributes: &record.attributes,
            seal: Seal::NONE,
        };
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        // The store keeps the checksums.
        if self.stale_ranges.iter().any(meets) || self.ledger.restore(&write, None).is_err() {
            self.stale.push(record.name);
            self.stale_ranges.push(range);
            return;
        }
        self.names.insert(offset, grant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_lent_than_the_files_take() {
        for capacity in [1 << 20, (50 << 20) + 1, 1 << 30, 100 << 30, 1 << 44] {
            let layout = Layout::of(DiskKind::Log, capacity).expect("it is large enough");
            let Layout { file_bytes, len_bytes } = layout;
            assert!(capacity / file_bytes >= FILES, "{layout:?}");
            assert!(len_bytes <= capacity / 5 * 4 && len_bytes >= capacity / 10 * 6, "{layout:?}");
        }
        assert!(matches!(
            Layout::of(DiskKind::Log, (1 << 20) - 1),
            Err(OpenDiskError::TooSmall { .. })
        ));
    }
}
