//! Objects of an object store, below one prefix.

use std::io;
use std::ops::Range;
use std::time::SystemTime;

/// The objects below one prefix, by name. What a call acknowledged lasts, and every later call sees it.
pub trait Bucket: Send + Sync {
    /// Makes an object that is not there yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if it is there, perhaps by an earlier attempt of this very call. After any other error it
    /// may be there, now or later.
    fn create(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// Makes an object, or replaces it as a whole.
    ///
    /// # Errors
    /// Those of the store: it may be there, now or later.
    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// The bytes of an object; nothing if it is not there.
    ///
    /// # Errors
    /// Those of the store.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// A part of an object, which may not be empty.
    ///
    /// # Errors
    /// Those of the store; [`io::ErrorKind::NotFound`] if the object is not there, [`io::ErrorKind::UnexpectedEof`] if it is shorter.
    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// All objects whose names begin with `folder` and a slash, in any order.
    ///
    /// # Errors
    /// Those of the store.
    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>>;

    /// Removes objects; those that are not there are no error.
    ///
    /// # Errors
    /// Those of the store: some may be gone then.
    fn remove_all(&self, names: &[String]) -> io::Result<()>;
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// Its name below the prefix, with the folder.
    pub name: String,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}
