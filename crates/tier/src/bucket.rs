//! Objects of an object store, below one prefix.

use std::io;
use std::ops::Range;
use std::time::SystemTime;

/// The objects below one prefix, by name. Once a call returns success, its effect is durable, and every later call
/// sees it.
pub trait Bucket: Send + Sync {
    /// Creates an object that does not exist yet.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if the object exists; an earlier attempt of this same call may have created
    /// it. After any other error the object may exist, or appear later.
    fn create(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// Creates an object, or replaces it as a whole.
    ///
    /// # Errors
    /// Any error of the store. The object may be written all the same, now or later.
    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()>;

    /// The bytes of an object, or `None` if it does not exist.
    ///
    /// # Errors
    /// Any error of the store.
    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// A part of an object. The range must not be empty.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the object does not exist, [`io::ErrorKind::UnexpectedEof`] if it ends before
    /// the range does, or any error of the store.
    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// Lists all objects whose names begin with `folder` and a slash, in any order.
    ///
    /// # Errors
    /// Any error of the store.
    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>>;

    /// Removes objects. An object that does not exist is no error.
    ///
    /// # Errors
    /// Any error of the store. Some of the objects may be removed all the same.
    fn remove_all(&self, names: &[String]) -> io::Result<()>;
}

/// An object that a listing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedObject {
    /// The object's name below the prefix, including its folder.
    pub name: String,
    /// When the object was written, by the store's clock.
    pub modified: SystemTime,
}
