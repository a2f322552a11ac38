//! The library's functions that this crate uses, and their structures.

use std::ffi::{CStr, c_char, c_int, c_void};

/// Longest path of a mount point, in bytes, including its terminating zero.
pub(crate) const MOUNT_POINT_BYTES: usize = 256;

/// `struct hf3fs_iov`: memory that this process and the daemon share.
#[repr(C)]
pub(crate) struct Iov {
    pub(crate) base: *mut u8,
    handle: *mut c_void,
    id: [c_char; 16],
    mount_point: [c_char; MOUNT_POINT_BYTES],
    size: usize,
    block_size: usize,
    numa: c_int,
}

/// `struct hf3fs_ior`: a ring of requests and completions.
#[repr(C)]
pub(crate) struct Ior {
    iov: Iov,
    handle: *mut c_void,
    mount_point: [c_char; MOUNT_POINT_BYTES],
    for_read: bool,
    io_depth: c_int,
    priority: c_int,
    timeout: c_int,
    flags: u64,
}

/// `struct hf3fs_cqe`
#[repr(C)]
pub(crate) struct Completion {
    pub(crate) index: i32,
    pub(crate) reserved: i32,
    /// Bytes that were moved, or a negative error number.
    pub(crate) result: i64,
    pub(crate) user_data: *const c_void,
}

// Sizes as in the library's header.
const _: () = assert!(size_of::<Iov>() == 312);
const _: () = assert!(size_of::<Ior>() == 600 && std::mem::offset_of!(Ior, for_read) == 576);
const _: () = assert!(size_of::<Completion>() == 24);

impl Iov {
    pub(crate) const EMPTY: Iov = Iov {
        base: std::ptr::null_mut(),
        handle: std::ptr::null_mut(),
        id: [0; 16],
        mount_point: [0; MOUNT_POINT_BYTES],
        size: 0,
        block_size: 0,
        numa: 0,
    };
}

impl Ior {
    pub(crate) const EMPTY: Ior = Ior {
        iov: Iov::EMPTY,
        handle: std::ptr::null_mut(),
        mount_point: [0; MOUNT_POINT_BYTES],
        for_read: false,
        io_depth: 0,
        priority: 0,
        timeout: 0,
        flags: 0,
    };
}

macro_rules! functions {
    ($($field:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Names of the functions.
            #[cfg(test)]
            pub(crate) const SYMBOLS: &[&CStr] = &[$($symbol),*];

            /// Looks up all functions.
            ///
            /// # Errors
            /// The name of a missing function.
            ///
            /// # Safety
            /// `find` must return null, or the 3FS library's function of this name.
            pub(crate) unsafe fn find(
                find: &dyn Fn(&CStr) -> *mut c_void,
            ) -> Result<Functions, &'static CStr> {
                Ok(Functions {
                    $($field: {
                        let found = find($symbol);
                        if found.is_null() {
                            return Err($symbol);
                        }
                        // SAFETY: not null, so the caller's `find` returned the library's function of this name, with
                        // this signature.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    // Buffer, its length, path.
    extract_mount_point: c"hf3fs_extract_mount_point"
        fn(*mut c_char, c_int, *const c_char) -> c_int;
    // Mount point, length, length of a block, NUMA node.
    iov_create: c"hf3fs_iovcreate" fn(*mut Iov, *const c_char, usize, usize, c_int) -> c_int;
    iov_destroy: c"hf3fs_iovdestroy" fn(*mut Iov);
    // Mount point, entries, whether it is for reads, depth, NUMA node.
    ior_create: c"hf3fs_iorcreate" fn(*mut Ior, *const c_char, c_int, bool, c_int, c_int) -> c_int;
    ior_destroy: c"hf3fs_iordestroy" fn(*mut Ior);
    reg_fd: c"hf3fs_reg_fd" fn(c_int, u64) -> c_int;
    dereg_fd: c"hf3fs_dereg_fd" fn(c_int);
    // Whether it is a read, address, file, offset, length, user data of the completion.
    prep_io: c"hf3fs_prep_io"
        fn(*const Ior, *const Iov, bool, *mut c_void, c_int, usize, u64, *const c_void) -> c_int;
    submit_ios: c"hf3fs_submit_ios" fn(*const Ior) -> c_int;
    // Completions, their greatest and least number, and the time to stop waiting.
    wait_for_ios: c"hf3fs_wait_for_ios"
        fn(*const Ior, *mut Completion, c_int, c_int, *const libc::timespec) -> c_int;
}
