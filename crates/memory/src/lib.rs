//! Memory that other threads, processes and devices may write at any time: mapped regions, raw slices, checksums over
//! them, and the system calls that move them through sockets.
//!
//! Nearly all unsafe code of the workspace lives here, and the crates above use [`RawSlice`]s. A `RawSlice` is an
//! address and a length, never a Rust reference. Its bytes are copied in or out, or handed to the kernel; only private
//! copies are inspected. This crate knows no keys, no versions and no protocol.
//!
//! A `RawSlice` borrows what keeps its memory mapped: a [`Region`], a [`Buffer`], a [`View`]. Memory that a caller named
//! by address is `'static`, on the word of whoever called [`RawSlice::new`]. A [`HeldSlice`] holds its region. Memory of
//! devices that transfers use in place is a [`DeviceRegion`], which is never a `RawSlice`.
//!
//! Enter at [`Region`] for a segment's memory, and at [`SliceList`] for the scatter/gather lists of callers. For
//! sockets, enter at [`SendBatch`], [`RecvBatch`] and [`Watch`]. Descriptors that children must not inherit are
//! [`Private`].

mod batch;
mod broken_thread;
mod buffer;
mod caller_copy;
mod checked_copy;
mod checksum;
#[cfg(test)]
mod child;
mod clock;
mod descriptors;
mod detach;
mod device_region;
mod file_io;
mod foreign;
mod held_slice;
mod helpers;
mod host_memory;
mod map_error;
mod map_provided;
mod mappings;
mod memory_limit;
mod named;
mod numa;
mod other_process;
mod owner_only;
mod peer;
mod placed_slice;
mod poll;
mod private;
mod process_id;
mod processors;
mod region;
mod registrations;
mod remote_slots;
mod rendezvous;
mod resolver;
mod room;
mod slice;
mod slice_list;
mod slot;
mod slot_reader;
mod slot_table;
mod system_call;
mod unmapped_write;
mod view;
mod view_fork;
mod watch;

pub use batch::{Batch, MAX_BATCH_SLICES, RecvBatch, SendBatch, Wait, recv_bytes, send_bytes};
pub use broken_thread::{BrokenThread, broken_thread};
pub use buffer::Buffer;
pub use caller_copy::{
    copy_all_to_caller, copy_from_caller, copy_to_caller, gather_from_caller, scatter_to_caller,
};
pub use checked_copy::{UNCHECKED, append_checked, copies_are_checked, copy_checked};
pub use checksum::{Crc32c, crc32c, digest};
pub use clock::monotonic_ns;
pub use descriptors::{MAX_DESCRIPTORS, recv_with_descriptors, send_with_descriptors};
pub use device_region::{DeviceAccess, DeviceRegion, DeviceSlice, Dmabuf, HeldMemory};
pub use file_io::{read_file_at, write_file_at};
pub use foreign::{lies_in_memory, page_bytes};
pub use helpers::{
    WorkAhead, with_dialing_helpers, with_helpers, with_helpers_ahead, with_waiting_helpers,
};

pub use held_slice::HeldSlice;
pub use host_memory::HostMemory;
pub use map_error::MapError;
pub use mappings::{Access, Mappings, describe_address, is_readable};
pub use memory_limit::MemoryLimit;
pub use named::{
    MAX_ROW_BYTES, MappedWords, NamedSegment, NamedSegmentError, NamedSegmentOptions, Record,
    RowId, SegmentOrigin, WordMemory,
};
pub use numa::{bind_to_numa_node, numa_node_of, numa_nodes};
pub use other_process::copy_from_process;
pub use owner_only::{make_owner_folder, owner_only};
pub use peer::{Peer, own_uid, peer_of};
pub use placed_slice::{Place, PlacedRange, PlacedSlice};
pub use poll::{Interest, await_hang_up, poll_sockets};
pub use private::{Private, PrivateWhile};
pub use process_id::process_id;
pub use processors::{online_processors, own_processor_time, running_threads, spawn_unpinned};
pub use region::{OutOfBounds, Region};
pub use registrations::Registration;
pub use remote_slots::{CopiedSlot, RemoteSlots};
pub use rendezvous::{RegionLock, SharedMemoryError, SharedMemoryName};
pub use resolver::Resolver;
pub use room::allocate_file;
pub use slice::RawSlice;
pub use slice_list::SliceList;
pub use slot::SlotRow;
pub use slot_reader::{SeenSlot, SlotReader};
pub use slot_table::SlotTable;
pub use view::View;
pub use watch::Watch;
