//! The functions that the library exports and this crate uses. All others stand in tables behind its objects.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{FabricAttr, Info, fid_fabric};

macro_rules! functions {
    ($($field:ident: $symbol:literal fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of the library.
        #[derive(Debug)]
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Names of the functions.
            #[cfg(feature = "testing")]
            pub(crate) const SYMBOLS: &[&CStr] = &[$($symbol),*];

            /// Looks up all functions.
            ///
            /// # Errors
            /// The name of a missing function.
            ///
            /// # Safety
            /// `find` must return null, or libfabric's function of this name.
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

pub(crate) use functions;

functions! {
    version: c"fi_version" fn() -> u32;
    // Version, host, service, flags, hints.
    getinfo: c"fi_getinfo"
        fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
    freeinfo: c"fi_freeinfo" fn(*mut Info);
    dupinfo: c"fi_dupinfo" fn(*const Info) -> *mut Info;
    fabric: c"fi_fabric" fn(*mut FabricAttr, *mut *mut fid_fabric, *mut c_void) -> c_int;
    strerror: c"fi_strerror" fn(c_int) -> *const c_char;
}
