//! The functions of the simulated 3FS library.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use crate::control::MARK;
use crate::state::{Buffer, Request, Ring, state};

const MOUNT_POINT_BYTES: usize = 256;

/// `struct hf3fs_iov`
#[repr(C)]
pub struct Iov {
    base: *mut u8,
    handle: usize,
    id: [c_char; 16],
    mount_point: [c_char; MOUNT_POINT_BYTES],
    size: usize,
    block_size: usize,
    numa: c_int,
}

/// `struct hf3fs_ior`
#[repr(C)]
pub struct Ior {
    iov: Iov,
    handle: usize,
    mount_point: [c_char; MOUNT_POINT_BYTES],
    for_read: bool,
    io_depth: c_int,
    priority: c_int,
    timeout: c_int,
    flags: u64,
}

/// `struct hf3fs_cqe`
#[repr(C)]
pub struct Completion {
    index: i32,
    reserved: i32,
    result: i64,
    user_data: usize,
}

macro_rules! api {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            /// See the header of 3FS.
            ///
            /// # Safety
            /// The pointers must satisfy what 3FS demands of this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? $body
        )*

        /// The function of this name, or null.
        #[must_use]
        pub fn symbol(name: &CStr) -> *mut c_void {
            match name.to_str() {
                $(Ok(stringify!($name)) => $name as *mut c_void,)*
                _ => std::ptr::null_mut(),
            }
        }
    };
}

/// Zero or a positive number on success, a negative error number on failure.
fn status(result: Result<c_int, c_int>) -> c_int {
    result.unwrap_or_else(|error| -error)
}

fn mount_point_of(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| folder.join(MARK).exists())
}

/// Creates a file in the mount point's folder that shows a live buffer or ring.
///
/// # Safety
/// `mount_point` must end with a zero.
unsafe fn link(mount_point: *const c_char, kind: &str, number: usize) -> Result<PathBuf, c_int> {
    // SAFETY: the caller promises that `mount_point` ends with a zero.
    let mount_point = unsafe { CStr::from_ptr(mount_point) };
    let mount_point = Path::new(OsStr::from_bytes(mount_point.to_bytes()));
    if !mount_point.join(MARK).exists() {
        return Err(libc::ENOENT);
    }
    let process = std::process::id();
    let link = mount_point.join(format!("3fs-virt/iovs/{kind}-{process}-{number}"));
    fs::write(&link, b"").map_err(|_| libc::EIO)?;
    Ok(link)
}

api! {
    fn hf3fs_extract_mount_point(found: *mut c_char, size: c_int, path: *const c_char) -> c_int {
        if state().enter("hf3fs_extract_mount_point").is_err() {
            return -1;
        }
        // SAFETY: the caller promises that the path ends with a zero.
        let path = unsafe { CStr::from_ptr(path) };
        let path = fs::canonicalize(OsStr::from_bytes(path.to_bytes())).expect("it is there");
        let Some(mount_point) = mount_point_of(&path) else { return -1 };
        let bytes = mount_point.as_os_str().as_bytes();
        if (bytes.len() as c_int) < size {
            // SAFETY: the caller promises `size` bytes, which is enough for the path and its zero.
            unsafe {
                found.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                found.add(bytes.len()).write(0);
            }
        }
        bytes.len() as c_int + 1
    }

    fn hf3fs_iovcreate(
        iov: *mut Iov, mount_point: *const c_char, size: usize, block_size: usize, numa: c_int
    ) -> c_int {
        let mut state = state();
        let made = state.enter("hf3fs_iovcreate").and_then(|()| {
            let handle = state.next();
            // SAFETY: the caller promises that the path ends with a zero.
            let link = unsafe { link(mount_point, "iov", handle) }?;
            let memory = Box::leak(vec![0_u8; size].into_boxed_slice()).as_mut_ptr();
            state.buffers.insert(handle, Buffer { address: memory.expose_provenance(), len: size, link });
            // SAFETY: the caller promises that `iov` is its own, and writable.
            unsafe {
                (*iov).base = memory;
                (*iov).handle = handle;
                (*iov).size = size;
                (*iov).block_size = block_size;
                (*iov).numa = numa;
            }
            Ok(0)
        });
        status(made)
    }

    fn hf3fs_iovdestroy(iov: *mut Iov) {
        let mut state = state();
        let _ = state.enter("hf3fs_iovdestroy");
        // SAFETY: the caller promises that `iov` is its own, and writable.
        let handle = unsafe { std::mem::take(&mut (*iov).handle) };
        // The memory is leaked, since requests that were left unanswered still name it.
        let buffer = state.buffers.remove(&handle).expect("it was made and not destroyed");
        let _ = fs::remove_file(buffer.link);
    }

    fn hf3fs_iorcreate(
        ior: *mut Ior, mount_point: *const c_char, entries: c_int, for_read: bool, depth: c_int, _numa: c_int
    ) -> c_int {
        let mut state = state();
        let made = state.enter("hf3fs_iorcreate").and_then(|()| {
            let handle = state.next();
            // SAFETY: the caller promises that the path ends with a zero.
            let link = unsafe { link(mount_point, "ior", handle) }?;
            let ring = Ring {
                is_for_read: for_read,
                entries: entries as usize,
                prepared: [].into(),
                submitted: [].into(),
                done: [].into(),
                link,
            };
            state.rings.insert(handle, ring);
            // SAFETY: the caller promises that `ior` is its own, and writable.
            unsafe {
                (*ior).handle = handle;
                (*ior).for_read = for_read;
                (*ior).io_depth = depth;
            }
            Ok(0)
        });
        status(made)
    }

    fn hf3fs_iordestroy(ior: *mut Ior) {
        let mut state = state();
        let _ = state.enter("hf3fs_iordestroy");
        // SAFETY: the caller promises that `ior` is its own, and writable.
        let handle = unsafe { std::mem::take(&mut (*ior).handle) };
        let ring = state.rings.remove(&handle).expect("it was made and not destroyed");
        let _ = fs::remove_file(ring.link);
    }

    fn hf3fs_reg_fd(file: c_int, _flags: u64) -> c_int {
        let mut state = state();
        let registered = state.enter("hf3fs_reg_fd").and_then(|()| {
            let path = fs::read_link(format!("/proc/self/fd/{file}")).map_err(|_| libc::EBADF)?;
            mount_point_of(&path).ok_or(libc::EBADF)?;
            if state.files.insert(file) { Ok(0) } else { Err(libc::EINVAL) }
        });
        registered.unwrap_or_else(|error| error)
    }

    fn hf3fs_dereg_fd(file: c_int) {
        let mut state = state();
        let _ = state.enter("hf3fs_dereg_fd");
        assert!(state.files.remove(&file), "it was registered");
    }

    fn hf3fs_prep_io(
        ior: *const Ior, iov: *const Iov, is_read: bool, memory: *mut c_void, file: c_int, at: usize,
        len: u64, user_data: usize
    ) -> c_int {
        let mut state = state();
        // SAFETY: the caller promises that both structures are its own, and alive.
        let (ring, buffer) = unsafe { ((*ior).handle, (*iov).handle) };
        let prepared = state.enter("hf3fs_prep_io").and_then(|()| {
            let buffer = state.buffers.get(&buffer).ok_or(libc::EINVAL)?;
            let (address, len) = (memory.expose_provenance(), len as usize);
            let is_inside =
                address >= buffer.address && address + len <= buffer.address + buffer.len;
            let is_registered = state.files.contains(&file);
            let index = state.next() as i32;
            let ring = state.rings.get_mut(&ring).ok_or(libc::EINVAL)?;
            if !is_inside || len == 0 || ring.is_for_read != is_read {
                return Err(libc::EINVAL);
            }
            if !is_registered {
                return Err(libc::EBADF);
            }
            if ring.prepared.len() + ring.submitted.len() + ring.done.len() == ring.entries {
                return Err(libc::EAGAIN);
            }
            let at = at as i64;
            ring.prepared.push_back(Request { index, is_read, address, file, at, len, user_data });
            Ok(index)
        });
        status(prepared)
    }

    fn hf3fs_submit_ios(ior: *const Ior) -> c_int {
        let mut state = state();
        // SAFETY: the caller promises that `ior` is its own, and alive.
        let handle = unsafe { (*ior).handle };
        let submitted = state.enter("hf3fs_submit_ios").and_then(|()| {
            let ring = state.rings.get_mut(&handle).ok_or(libc::EINVAL)?;
            let prepared = std::mem::take(&mut ring.prepared);
            ring.submitted.extend(prepared);
            Ok(0)
        });
        status(submitted)
    }

    fn hf3fs_wait_for_ios(
        ior: *const Ior, completions: *mut Completion, most: c_int, _least: c_int, until: *const libc::timespec
    ) -> c_int {
        // Carried out late: a caller that reuses the memory before it waits reads or writes wrong bytes.
        thread::sleep(Duration::from_micros(50));
        let mut state = state();
        // SAFETY: the caller promises that `ior` is its own, and alive.
        let handle = unsafe { (*ior).handle };
        if let Err(error) = state.enter("hf3fs_wait_for_ios") {
            return -error;
        }
        state.turn(handle);
        let Some(ring) = state.rings.get_mut(&handle) else { return -libc::EINVAL };
        let mut count = 0;
        while count < most && let Some(done) = ring.done.pop_front() {
            let completion = Completion {
                index: done.index,
                reserved: 0,
                result: done.result,
                user_data: done.user_data,
            };
            // SAFETY: the caller promises room for `most` completions.
            unsafe { completions.add(count as usize).write(completion) };
            count += 1;
        }
        drop(state);
        if count == 0 {
            // SAFETY: the caller promises that `until` points to a `timespec`.
            let until = unsafe { Duration::new((*until).tv_sec as u64, (*until).tv_nsec as u32) };
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            thread::sleep(until.saturating_sub(now.expect("after 1970")));
        }
        count
    }
}
