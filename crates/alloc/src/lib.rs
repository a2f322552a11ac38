//! Allocators of byte ranges over an arena `[0, len)`. The master uses one for each segment's memory.
//!
//! This crate only computes offsets: it has no pointer, no memory that it allocates from, no clock and no randomness.
//! The same calls always return the same ranges. Offsets are in bytes from the start of the arena, without alignment.
//!
//! Enter at [`Allocator`], which is one of
//! - [`RangeAllocator`], the default: any length, a good fit in constant time, neighbouring free ranges joined at
//!   once;
//! - [`SlabAllocator`], known to operators as `cachelib`: size classes in slabs of 4 MiB.
//!
//! An allocator returns `None` for a length that it cannot serve. A [`Handle`] that names no live range is a fault of
//! the caller and panics, in release builds too. Otherwise two objects could get the same bytes.

#![forbid(unsafe_code)]

mod allocator;
mod growth;
mod handle;
mod range;
mod slab;

pub use allocator::Allocator;
pub use handle::{Allocation, Handle, Neighbour, Range};
pub use range::{MAX_GRANULE, RangeAllocator, class_of};
pub use slab::{MAX_SLAB_BYTES, MIN_SLAB_BYTES, SlabAllocator};
