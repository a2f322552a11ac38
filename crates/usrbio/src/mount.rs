//! A mounted 3FS: its buffer, and the lanes that transfers use.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;

use crate::lane::{Lane, SharedBuffer};
use crate::load::{LoadError, functions};
use crate::symbols::{Functions, MOUNT_POINT_BYTES};

/// Length of the buffer of a mount, in bytes.
pub const BUFFER_BYTES: usize = 32 << 20;
/// Most transfers in flight.
pub const LANES: usize = 8;
/// Most bytes of one request.
pub(crate) const LANE_BYTES: usize = BUFFER_BYTES / LANES;

/// A folder that only the root of a mounted 3FS has.
const MARK: &str = "3fs-virt";
/// Longest time of a request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why USRBIO cannot be used for files on 3FS. System calls still can.
#[derive(Debug, Error)]
pub enum MountError {
    /// The library cannot be loaded, or is a different one.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The path looks like 3FS, but the library does not recognise it.
    #[error("the library of 3FS says that it is not on 3FS")]
    NotOn3fs,
    /// The path of the mount point is too long for the library.
    #[error("the path of the mount point is too long for the library of 3FS")]
    PathTooLong,
    /// A call of the library failed.
    #[error("{call}: {error}")]
    Call {
        /// The name of the function.
        call: &'static str,
        /// The error of the call.
        error: io::Error,
    },
    /// The path cannot be resolved.
    #[error("{0}")]
    Path(io::Error),
}

/// The buffer and the rings through which this process accesses files of a mounted 3FS.
pub struct Mount {
    pub(crate) functions: &'static Functions,
    // Dropped before the buffer of which they are parts.
    lanes: Mutex<Lanes>,
    returned: Condvar,
    buffer: SharedBuffer,
    patience: Duration,
}

struct Lanes {
    free: Vec<Lane>,
    /// How many lanes are usable, free or lent.
    usable: usize,
}

impl Mount {
    /// Opens the 3FS on which a path lies. `None` if it lies on another filesystem. The path must exist.
    ///
    /// # Errors
    /// The path is on 3FS, but USRBIO cannot be used.
    pub fn find(path: &Path) -> Result<Option<Mount>, MountError> {
        Self::find_with(path, PATIENCE)
    }

    pub(crate) fn find_with(path: &Path, patience: Duration) -> Result<Option<Mount>, MountError> {
        let path = path.canonicalize().map_err(MountError::Path)?;
        // This check keeps hosts without 3FS from loading the library.
        if !path.ancestors().any(|folder| folder.join(MARK).is_dir()) {
            return Ok(None);
        }
        let functions = functions()?;
        let mount_point = mount_point_of(functions, &path)?;
        let failed = |call| move |error| MountError::Call { call, error };
        let buffer = SharedBuffer::new(functions, &mount_point, BUFFER_BYTES)
            .map_err(failed("hf3fs_iovcreate"))?;
        let part = |lane| buffer.whole().sub(lane * LANE_BYTES, LANE_BYTES);
        let lanes = (0..LANES).map(|lane| Lane::new(functions, &mount_point, part(lane)));
        let free: Vec<Lane> =
            lanes.collect::<io::Result<_>>().map_err(failed("hf3fs_iorcreate"))?;
        let lanes = Mutex::new(Lanes { free, usable: LANES });
        Ok(Some(Mount { functions, lanes, returned: Condvar::new(), buffer, patience }))
    }

    /// Waits for a free lane.
    pub(crate) fn lane(&self) -> io::Result<LentLane<'_>> {
        let mut lanes = self.lock();
        loop {
            if lanes.usable == 0 {
                let reason = "3FS left too many requests unanswered: USRBIO is given up";
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            match lanes.free.pop() {
                Some(lane) => return Ok(LentLane { mount: self, lane: Some(lane) }),
                None => {
                    lanes = self.returned.wait(lanes).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    pub(crate) const fn buffer(&self) -> &SharedBuffer {
        &self.buffer
    }

    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount").field("usable_lanes", &self.lock().usable).finish_non_exhaustive()
    }
}

/// A lane that is lent to a transfer. Dropping this returns it.
pub(crate) struct LentLane<'a> {
    mount: &'a Mount,
    lane: Option<Lane>,
}

impl LentLane<'_> {
    pub(crate) fn get(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("it is given back at the end")
    }
}

impl Drop for LentLane<'_> {
    fn drop(&mut self) {
        let mut lanes = self.mount.lock();
        match self.lane.take() {
            Some(lane) if !lane.is_lost => lanes.free.push(lane),
            // The lane's part of the buffer is not reused, since the request may still be carried out.
            _ => lanes.usable -= 1,
        }
        let none_left = lanes.usable == 0;
        drop(lanes);
        if none_left {
            self.mount.returned.notify_all();
        } else {
            self.mount.returned.notify_one();
        }
    }
}

/// The mount point of the 3FS on which a path lies.
fn mount_point_of(functions: &Functions, path: &Path) -> Result<CString, MountError> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| MountError::Path(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let mut found = vec![0_u8; MOUNT_POINT_BYTES];
    // SAFETY: `found` has this length, and the path is alive and ends with a zero.
    let len = unsafe {
        let buffer = found.as_mut_ptr().cast::<c_char>();
        (functions.extract_mount_point)(buffer, MOUNT_POINT_BYTES as c_int, path.as_ptr())
    };
    match usize::try_from(len) {
        Err(_) | Ok(0) => Err(MountError::NotOn3fs),
        Ok(len) if len > MOUNT_POINT_BYTES => Err(MountError::PathTooLong),
        Ok(_) => {
            found.truncate(found.iter().position(|&byte| byte == 0).unwrap_or(0));
            if found.is_empty() {
                return Err(MountError::NotOn3fs);
            }
            Ok(CString::new(found).expect("it ends before the first zero"))
        }
    }
}
