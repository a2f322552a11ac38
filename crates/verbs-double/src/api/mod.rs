//! The functions of the simulated library.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

/// Defines functions of the library, and a list of them by name.
macro_rules! api {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? $body:block)*) => {
        $(
            /// See `infiniband/verbs.h`.
            ///
            /// # Safety
            /// The pointers must satisfy what libibverbs demands of this function.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) $(-> $result)? $body
        )*

        /// The function of this name, if it is one of these.
        pub(super) fn symbol(name: &str) -> Option<*mut c_void> {
            match name {
                $(stringify!($name) => Some($name as *mut c_void),)*
                _ => None,
            }
        }
    };
}

pub mod device;
pub mod memory;
pub mod pair;
mod post;
pub mod queue;

/// Sets `errno`, and returns null.
fn null<T>(number: c_int) -> *mut T {
    // SAFETY: the call returns a place of this thread.
    unsafe { *libc::__errno_location() = number };
    ptr::null_mut()
}

/// Destroys an object that nothing uses.
///
/// # Safety
/// The object came from a box, and nobody else destroys it.
unsafe fn unbox<T>(object: *mut T) -> c_int {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(object) });
    0
}

/// The function of this name, or null.
#[must_use]
pub fn symbol(name: &CStr) -> *mut c_void {
    let name = name.to_str().unwrap_or_default();
    let all = [device::symbol, memory::symbol, queue::symbol, pair::symbol];
    all.iter().find_map(|symbol| symbol(name)).unwrap_or(ptr::null_mut())
}
