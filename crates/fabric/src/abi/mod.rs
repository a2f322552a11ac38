//! The parts of libfabric's headers that this crate uses, under their C names: structures, tables of functions, and
//! constants.
//!
//! Most calls of libfabric are inline functions that look up a pointer in a table behind an object, so the layouts of
//! these tables are its binary interface. Later versions only append fields. A test compares each size, offset and
//! constant with the headers of the installed version.

#[cfg(test)]
pub(crate) mod check;
mod constants;
mod info;
mod objects;

pub(crate) use constants::*;
pub(crate) use info::*;
pub(crate) use objects::*;

/// Layout of a structure: its C name, its size if this crate knows all fields, and its fields' names, offsets, sizes.
#[cfg(test)]
pub(crate) struct Layout {
    pub(crate) c_name: &'static str,
    pub(crate) size: Option<usize>,
    pub(crate) fields: &'static [(&'static str, usize, usize)],
}

/// Declares C structures, and lists their layouts for the test. `whole` structures are allocated by this crate, or have
/// all of C's fields; of `leading` ones, which the library allocates, only the first fields are declared.
macro_rules! structures {
    ($list:ident: $($kind:ident $c_name:literal $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[allow(dead_code, reason = "some fields only give the others their offsets")]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }
        )*

        #[cfg(test)]
        pub(crate) const $list: &[$crate::abi::Layout] = &[$($crate::abi::Layout {
            c_name: $c_name,
            size: $crate::abi::structures!(@size $kind $name),
            fields: &[$((
                stringify!($field),
                std::mem::offset_of!($name, $field),
                size_of::<$type>(),
            ),)*],
        },)*];
    };
    (@size whole $name:ident) => { Some(size_of::<$name>()) };
    (@size leading $name:ident) => { None };
}
pub(crate) use structures;

/// Declares C constants, and lists them for the test.
macro_rules! declare_constants {
    ($($type:ty { $($name:ident = $value:expr;)* })*) => {
        $($(pub(crate) const $name: $type = $value;)*)*

        /// All constants, for the test.
        #[cfg(test)]
        pub(crate) const CONSTANTS: &[(&str, u64)] = &[$($((stringify!($name), $name as u64),)*)*];
    };
}
pub(crate) use declare_constants;
