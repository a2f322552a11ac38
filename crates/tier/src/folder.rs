//! The folder of a disk: the files of its log, and whose it is.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mooncake_memory::allocate_file;

use crate::direct::{DirectFile, Pool};
use crate::directory::{BlockFile, Directory};
use crate::errors::OpenError;
use crate::layout::FORMAT;

/// Says whose the folder is; locked by the process that uses it.
const IDENTITY: &str = "mooncake-disk";
/// What the log's owner noted, and the next note until it takes that place.
const NOTE: &str = "mooncake-disk-note";
const NEXT_NOTE: &str = "mooncake-disk-note.next";
/// What the names of the log's files end in.
const SUFFIX: &str = ".log";
/// Longer files are not read as an identity or a note.
const MAX_TEXT_BYTES: u64 = 4096;

/// A folder that this process alone uses, until this is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    pool: Arc<Pool>,
    _lock: File,
}

impl Folder {
    /// Opens the folder of a disk of this cluster, or makes it.
    ///
    /// # Errors
    /// It holds other things, is another cluster's or of another format, or is used by another process.
    pub fn open(path: &Path, cluster: &str) -> Result<Folder, OpenError> {
        let identity = path.join(IDENTITY);
        let of_folder = |error| OpenError::Folder { path: path.to_owned(), error };
        let of_identity = |error| OpenError::Folder { path: identity.clone(), error };
        fs::create_dir_all(path).map_err(of_folder)?;
        let is_new = !identity.exists();
        if is_new && fs::read_dir(path).map_err(of_folder)?.next().is_some() {
            return Err(OpenError::NotADisk(path.to_owned()));
        }
        let mut file = OpenOptions::new()
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
            // A process that died here left an empty file, and nothing else.
            let text = format!("format {FORMAT}\ncluster {}\n", one_line(cluster));
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(of_identity)?;
            sync_folder(path).map_err(of_folder)?;
        } else {
            check(path, &text, &one_line(cluster))?;
        }
        let pool = Arc::new(Pool::new().map_err(of_folder)?);
        Ok(Folder { path: path.to_owned(), pool, _lock: file })
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }
}

/// Names of clusters may hold anything.
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

/// That a file was made or removed lasts only after this.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Directory for Folder {
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(self.file(number))?;
        // Room that is there from the start is in one piece, and never missing later.
        allocate_file(file.as_fd(), len)?;
        file.sync_all()?;
        sync_folder(&self.path)?;
        Ok(Arc::new(DirectFile::new(file, &self.file(number), &self.pool)?))
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.file(number))?;
        Ok(Arc::new(DirectFile::new(file, &self.file(number), &self.pool)?))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            // A name that only looks like one of ours is somebody else's.
            numbers.extend(number.filter(|&number| self.file(number).ends_with(&name)));
        }
        Ok(numbers)
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.file(number))
    }

    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.path.join(NOTE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut note = Vec::new();
        file.take(MAX_TEXT_BYTES).read_to_end(&mut note)?;
        Ok(Some(note))
    }

    fn set_note(&self, note: &[u8]) -> io::Result<()> {
        let next = self.path.join(NEXT_NOTE);
        let mut file = File::create(&next)?;
        file.write_all(note)?;
        file.sync_all()?;
        fs::rename(&next, self.path.join(NOTE))?;
        sync_folder(&self.path)
    }
}
