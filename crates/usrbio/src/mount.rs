//! A mounted 3FS: its buffer, and the lanes that transfers wait for.

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
/// Transfers that are under way at the same time.
pub const LANES: usize = 8;
/// The most bytes of one request.
pub(crate) const LANE_BYTES: usize = BUFFER_BYTES / LANES;

/// What a mounted 3FS has at its root, and nothing else does.
const MARK: &str = "3fs-virt";
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why files on 3FS cannot be read and written by USRBIO. They can still be as other files are.
#[derive(Debug, Error)]
pub enum MountError {
    /// There is no library, or it is another one.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It looks like 3FS, but the library does not know it as such.
    #[error("the library of 3FS says that it is not on 3FS")]
    NotOn3fs,
    /// The library takes no path that long.
    #[error("the path of the mount point is too long for the library of 3FS")]
    PathTooLong,
    /// A call of the library failed.
    #[error("{call}: {error}")]
    Call {
        /// The name of the function.
        call: &'static str,
        /// What it says.
        error: io::Error,
    },
    /// The path cannot be looked at.
    #[error("{0}")]
    Path(io::Error),
}

/// The buffer and the rings by which this process reads and writes files of a mounted 3FS.
pub struct Mount {
    pub(crate) functions: &'static Functions,
    // Before the buffer that they are parts of.
    lanes: Mutex<Lanes>,
    returned: Condvar,
    buffer: SharedBuffer,
    patience: Duration,
}

struct Lanes {
    free: Vec<Lane>,
    /// How many there are that can be used.
    usable: usize,
}

impl Mount {
    /// The 3FS that a path is on; nothing if it is on another filesystem. The path must be there.
    ///
    /// # Errors
    /// It is on 3FS, but that cannot be reached by USRBIO.
    pub fn find(path: &Path) -> Result<Option<Mount>, MountError> {
        Self::find_with(path, PATIENCE)
    }

    pub(crate) fn find_with(path: &Path, patience: Duration) -> Result<Option<Mount>, MountError> {
        let path = path.canonicalize().map_err(MountError::Path)?;
        // Without this the library would be loaded on every host that has it.
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

    /// Waits for a lane that is free.
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

/// A lane until it is given back.
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
            // Its part of the buffer stays, for the request that may still be carried out.
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

/// Where the 3FS of a path is mounted.
fn mount_point_of(functions: &Functions, path: &Path) -> Result<CString, MountError> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| MountError::Path(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let mut found = vec![0_u8; MOUNT_POINT_BYTES];
    // SAFETY: the buffer has this length, and the path ends with a zero and is there.
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
