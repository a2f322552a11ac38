//! The folder of a disk: its files, and the identity that says which cluster owns it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_memory::{allocate_file, make_owner_folder, owner_only};
use mooncake_usrbio::{Mount, RegisteredFile};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::direct::DirectFile;
use crate::directory::{BlockFile, Directory, Notes};
use crate::errors::OpenError;
use crate::layout::FORMAT;

/// Name of the identity file. It names format and cluster, and the process that uses the folder locks it.
const IDENTITY: &str = "mooncake-disk";
/// Name of the note's file. [`NEXT_NOTE`] holds the next note until the two change names.
const NOTE: &str = "mooncake-disk-note";
/// Bytes that are reserved on disk for the next note.
const RESERVED_FOR_NOTE: usize = 4096;
const NEXT_NOTE: &str = "mooncake-disk-note.next";
/// File extension of drafts.
const DRAFT: &str = "new";
/// Longest identity or note that is read, in bytes.
const MAX_TEXT_BYTES: u64 = 4096;

/// How a folder arranges its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// All files lie in the folder itself: a log has few.
    Flat,
    /// The files lie in subfolders, by a hash of their numbers: there is one file for each record.
    Hashed,
}

impl Spread {
    /// File extension of the numbered files.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Flat => "log",
            Self::Hashed => "object",
        }
    }
}

/// How files are read and written.
#[derive(Debug)]
enum Access {
    /// By system calls.
    System,
    /// By the I/O rings of 3FS.
    Usrbio(Arc<Mount>),
}

impl Access {
    /// Chooses the access for files of this folder.
    fn of(path: &Path) -> Access {
        match Mount::find(path) {
            Ok(Some(mount)) => {
                tracing::info!(path = %path.display(), "files on 3FS are read and written by USRBIO");
                return Access::Usrbio(Arc::new(mount));
            }
            Ok(None) => {}
            Err(error) => {
                let path = path.display();
                tracing::warn!(%path, %error, "files on 3FS are read and written without USRBIO");
            }
        }
        Access::System
    }
}

/// A folder that this process uses exclusively as long as this value lives.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    spread: Spread,
    access: Access,
    _lock: File,
}

impl Folder {
    /// Opens the folder of a log of this cluster, or creates it.
    ///
    /// # Errors
    /// The folder holds other files, belongs to another cluster, has another format, or is used by another process.
    pub fn open(path: &Path, cluster: &str) -> Result<Folder, OpenError> {
        Self::open_as(path, cluster, Spread::Flat)
    }

    /// As [`Folder::open`], for a folder that holds a file for each record. Files on 3FS are read and written by
    /// USRBIO where possible.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open_hashed(path: &Path, cluster: &str) -> Result<Folder, OpenError> {
        let folder = Self::open_as(path, cluster, Spread::Hashed)?;
        let made = (0..HASHES).try_for_each(|hash| make_owner_folder(&path.join(hashed(hash))));
        let made = made.and_then(|()| sync_folder(path));
        made.map_err(|error| OpenError::Folder { path: path.to_owned(), error })?;
        Ok(folder)
    }

    /// Reads the note of a folder, even while another process uses the folder.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn note_in(path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(path.join(NOTE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut note = Vec::new();
        file.take(MAX_TEXT_BYTES).read_to_end(&mut note)?;
        Ok(Some(note))
    }

    fn open_as(path: &Path, cluster: &str, spread: Spread) -> Result<Folder, OpenError> {
        let identity = path.join(IDENTITY);
        let of_folder = |error| OpenError::Folder { path: path.to_owned(), error };
        let of_identity = |error| OpenError::Folder { path: identity.clone(), error };
        make_folder(path).map_err(of_folder)?;
        let is_other = || Ok(fs::read_dir(path)?.next().is_some() && !identity.exists());
        // Checks `identity` again: another process may be creating the disk at the same time.
        if !identity.exists() && is_other().map_err(of_folder)? {
            return Err(OpenError::NotADisk(path.to_owned()));
        }
        let mut file = owner_only()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&identity)
            .map_err(of_identity)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(OpenError::InUse(path.to_owned())),
            Err(fs::TryLockError::Error(error)) => return Err(of_identity(error)),
        }
        let mut text = String::new();
        (&file).take(MAX_TEXT_BYTES).read_to_string(&mut text).map_err(of_identity)?;
        if text.is_empty() {
            // The identity is new, or a process died before it wrote it. The folder holds nothing else.
            let text = format!("format {FORMAT}\ncluster {}\n", one_line(cluster));
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(of_identity)?;
            sync_folder(path).map_err(of_folder)?;
        } else {
            check(path, &text, &one_line(cluster))?;
        }
        let access = match spread {
            Spread::Flat => Access::System,
            Spread::Hashed => Access::of(path),
        };
        Ok(Folder { path: path.to_owned(), spread, access, _lock: file })
    }

    /// The folder in which the file of this number lies.
    fn parent(&self, number: u64) -> PathBuf {
        match self.spread {
            Spread::Flat => self.path.clone(),
            Spread::Hashed => self.path.join(hashed(hash_of(number))),
        }
    }

    fn file(&self, number: u64) -> PathBuf {
        self.parent(number).join(format!("{number:016x}.{}", self.spread.suffix()))
    }

    /// Wraps a file that was opened at `path`.
    fn block_file(&self, file: File, path: &Path) -> io::Result<Arc<dyn BlockFile>> {
        Ok(match &self.access {
            Access::System => Arc::new(DirectFile::new(file, path)?),
            Access::Usrbio(mount) => Arc::new(RegisteredFile::new(file, mount)?),
        })
    }

    fn draft_of(&self, number: u64) -> PathBuf {
        self.parent(number).join(format!("{number:016x}.{DRAFT}"))
    }

    /// Adds the numbers of the files in one folder. Removes drafts, which dead processes have left.
    fn list_in(&self, folder: &Path, numbers: &mut Vec<u64>) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let number = path.file_stem().and_then(|stem| stem.to_str());
            let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            // A file is ours only if its whole name is the one that we would give it.
            let Some(number) = number else { continue };
            if path == self.file(number) {
                numbers.push(number);
            } else if path == self.draft_of(number) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }
}

/// Into how many subfolders [`Folder::open_hashed`] spreads its files.
const HASHES: u64 = 256;

/// Numbers are offsets of ranges, whose low bits are mostly zero.
const fn hash_of(number: u64) -> u64 {
    (number >> 12).wrapping_add(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

fn hashed(hash: u64) -> String {
    format!("{hash:02x}")
}

/// The path of the file for the range at `offset`, in the folder of a store of [`FileStore`](crate::FileStore).
#[must_use]
pub fn file_of_range(folder: &Path, offset: u64) -> PathBuf {
    let name = format!("{offset:016x}.{}", Spread::Hashed.suffix());
    folder.join(hashed(hash_of(offset))).join(name)
}

/// Escapes a cluster's name, which may contain line breaks.
fn one_line(cluster: &str) -> String {
    cluster.escape_default().to_string()
}

fn check(path: &Path, text: &str, wanted: &str) -> Result<(), OpenError> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or("")
    };
    let (path, found) = (path.to_owned(), value("format"));
    if found != FORMAT.to_string() {
        return Err(OpenError::OtherFormat { path, found: found.to_owned() });
    }
    match value("cluster") {
        found if found == wanted => Ok(()),
        found => {
            let (found, wanted) = (found.to_owned(), wanted.to_owned());
            Err(OpenError::OtherCluster { path, found, wanted })
        }
    }
}

/// Creates a folder and its missing parents, and makes them durable.
fn make_folder(path: &Path) -> io::Result<()> {
    let missing = path.ancestors().take_while(|folder| !folder.as_os_str().is_empty());
    let missing: Vec<&Path> = missing.take_while(|folder| !folder.exists()).collect();
    make_owner_folder(path)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(|parent| {
        // A relative path begins in the current folder.
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    })
}

/// Makes the creation and removal of files in a folder durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Directory for Folder {
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut options = owner_only();
        let file = options.read(true).write(true).create_new(true).open(self.file(number))?;
        // Allocated up front, the file is likely contiguous, and a later write cannot run out of space.
        allocate_file(file.as_fd(), len)?;
        file.sync_all()?;
        sync_folder(&self.path)?;
        self.block_file(file, &self.file(number))
    }

    fn renumber(&self, number: u64, new: u64) -> io::Result<Arc<dyn BlockFile>> {
        fs::rename(self.file(number), self.file(new))?;
        sync_folder(&self.parent(new))?;
        self.open(new)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.file(number))?;
        self.block_file(file, &self.file(number))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        match self.spread {
            Spread::Flat => self.list_in(&self.path, &mut numbers)?,
            Spread::Hashed => {
                for hash in 0..HASHES {
                    self.list_in(&self.path.join(hashed(hash)), &mut numbers)?;
                }
            }
        }
        Ok(numbers)
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.file(number))
    }

    fn draft(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let path = self.draft_of(number);
        let mut options = owner_only();
        let file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
        self.block_file(file, &path)
    }

    fn publish(&self, number: u64) -> io::Result<()> {
        fs::rename(self.draft_of(number), self.file(number))?;
        sync_folder(&self.parent(number))
    }

    fn discard(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.draft_of(number))
    }

    fn remove_all(&self, numbers: &[u64]) -> io::Result<()> {
        let mut parents = BTreeSet::new();
        for &number in numbers {
            match fs::remove_file(self.file(number)) {
                // A file that does not exist may have been removed a moment ago, not durably yet: sync its folder all
                // the same.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => parents.insert(self.parent(number)),
            };
        }
        parents.iter().try_for_each(|parent| sync_folder(parent))
    }

    fn settle(&self) -> io::Result<()> {
        match self.spread {
            Spread::Flat => sync_folder(&self.path),
            Spread::Hashed => {
                (0..HASHES).try_for_each(|hash| sync_folder(&self.path.join(hashed(hash))))
            }
        }
    }
}

impl Notes for Folder {
    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        Self::note_in(&self.path)
    }

    fn set_note(&self, note: &[u8]) -> io::Result<()> {
        let next = self.path.join(NEXT_NOTE);
        let mut file = owner_only().write(true).create(true).truncate(false).open(&next)?;
        file.write_all(note)?;
        file.set_len(note.len() as u64)?;
        file.sync_all()?;
        // The old note keeps the space of the next one, so that it can be written however full the filesystem is.
        let note = self.path.join(NOTE);
        let exchanged = renameat_with(CWD, &next, CWD, &note, RenameFlags::EXCHANGE);
        if exchanged.is_err() {
            // It is the first note, or the filesystem exchanges no names.
            fs::rename(&next, &note)?;
            let spare = owner_only().write(true).create(true).truncate(true).open(&next);
            let _ = spare.and_then(|mut spare| spare.write_all(&[0; RESERVED_FOR_NOTE]));
        }
        sync_folder(&self.path)?;
        Ok(())
    }
}
