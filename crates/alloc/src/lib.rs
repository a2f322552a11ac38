//! Allocators of byte ranges over an arena `[0, len)`: the master's view of a segment's memory.
//!
//! Everything here is arithmetic on offsets. There is no pointer, no memory that is allocated *from*, no
//! clock and no randomness: the same calls give the same ranges, always. Offsets are in bytes from the start
//! of the arena and are not aligned to anything.
//!
//! Enter at [`Allocator`], which is one of
//! - [`RangeAllocator`], the default: any length, good fit in constant time, neighbours joined at once;
//! - [`SlabAllocator`], known to operators as `cachelib`: size classes in slabs of 4 MiB.
//!
//! A length that cannot be served is `None`. A [`Handle`] that names no live range is a broken invariant of
//! the caller and panics, in release builds too: to go on would hand the same bytes to two objects.

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
