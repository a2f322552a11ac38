//! Objects of the library, closed on drop.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use mooncake_memory::process_id;

use crate::abi::{Fid, fid_av, fid_cq, fid_domain, fid_ep, fid_fabric, fid_mr};
use crate::call::{CallError, check, op};
use crate::load::Library;

/// A structure of the library that begins with a [`Fid`].
///
/// # Safety
/// It does, and its layout is C's.
pub(crate) unsafe trait BeginsWithFid {}

// SAFETY: all of these do, as `abi/check.rs` proves.
unsafe impl BeginsWithFid for fid_fabric {}
// SAFETY: as above.
unsafe impl BeginsWithFid for fid_domain {}
// SAFETY: as above.
unsafe impl BeginsWithFid for fid_ep {}
// SAFETY: as above.
unsafe impl BeginsWithFid for fid_cq {}
// SAFETY: as above.
unsafe impl BeginsWithFid for fid_av {}
// SAFETY: as above.
unsafe impl BeginsWithFid for fid_mr {}

/// An object that this process opened, and nobody else closes.
pub(crate) struct Object<T: BeginsWithFid> {
    library: &'static Library,
    object: NonNull<T>,
    process: u32,
}

// SAFETY: domains are opened with `FI_THREAD_SAFE`: the library lets any thread use its objects.
unsafe impl<T: BeginsWithFid> Send for Object<T> {}
// SAFETY: as for Send.
unsafe impl<T: BeginsWithFid> Sync for Object<T> {}

impl<T: BeginsWithFid> Object<T> {
    /// Takes what a call opened, which got a pointer to fill in and returned a status.
    ///
    /// # Safety
    /// If `open` returns zero, it has stored an object of this library that nobody else closes.
    pub(crate) unsafe fn open(
        library: &'static Library,
        call: &'static str,
        open: impl FnOnce(*mut *mut T) -> c_int,
    ) -> Result<Object<T>, CallError> {
        let mut object = ptr::null_mut();
        check(library, call, open(&raw mut object))?;
        let object = NonNull::new(object).expect("a call that succeeds opens something");
        #[cfg(feature = "testing")]
        crate::testing::opened();
        Ok(Object { library, object, process: process_id() })
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    pub(crate) fn fid(&self) -> *mut Fid {
        self.object.as_ptr().cast()
    }

    /// Attaches another object to this one.
    pub(crate) fn bind<U: BeginsWithFid>(
        &self,
        call: &'static str,
        other: &Object<U>,
        flags: u64,
    ) -> Result<(), CallError> {
        // SAFETY: both objects live.
        let status =
            unsafe { op!("fi_bind": (*self.fid()).ops => bind(self.fid(), other.fid(), flags)) };
        check(self.library, call, status).map(drop)
    }

    /// Runs a command on this object.
    ///
    /// # Safety
    /// The argument is what this command demands.
    pub(crate) unsafe fn control(
        &self,
        call: &'static str,
        command: c_int,
        argument: *mut c_void,
    ) -> Result<(), CallError> {
        // SAFETY: the object lives, and this function's caller vouches for the argument.
        let status = unsafe {
            op!("fi_control": (*self.fid()).ops => control(self.fid(), command, argument))
        };
        check(self.library, call, status).map(drop)
    }
}

impl<T: BeginsWithFid> Drop for Object<T> {
    fn drop(&mut self) {
        // A forked child must not close what its parent uses.
        if self.process != process_id() {
            return;
        }
        // SAFETY: the object lives, and only this drop closes it.
        let status = unsafe { (*(*self.fid()).ops).close.map_or(0, |close| close(self.fid())) };
        #[cfg(feature = "testing")]
        crate::testing::closed(status);
        if let Err(error) = check(self.library, "fi_close", status) {
            tracing::warn!(%error, kind = std::any::type_name::<T>(), "an object stays open");
        }
    }
}
