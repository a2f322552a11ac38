//! Nodes of other hosts whose memory this process reads and writes one-sided: no thread of the node takes part. Which
//! library moves the bytes, only `mooncake-fabric` knows. It is what [`crate::near`] does with mapped memory.
//!
//! **Reads** send no message. [`Far`] copies the range's slot, then the bytes, then the slot again. The bytes count if
//! both copies of the slot are equal: the node withdraws a slot before a byte of its range changes. Each copy has ended
//! before the next is submitted, so that no NIC can change their order.
//!
//! Memory without a table of slots, as that of engines, is read like it is written ([`ask`]).
//!
//! **Writes** begin and complete by message. The node answers a Begin with keys of just these ranges. It makes the keys
//! invalid before it completes or abandons the writes, and abandons them when the connection ends. So a writer that
//! slept reaches nothing that was granted to another ([`lender::FarLender`]).
//!
//! Where a device joins its ends in pairs, each connection to a node has ends of its own, at the NICs of both sides: both
//! make them when the connection is opened, and they end with it. One connection is for reads alone. What a NIC does not
//! carry out goes by the others. A writer of which a NIC may still have something under way says so when it completes, and
//! the node destroys its ends first. A node that may be reached by more NICs than when it was met is greeted anew.
//!
//! What is registered is the memory of nodes, staging buffers of this process ([`staging`]), and memory of callers that
//! stays mapped until they say otherwise ([`CallersMemory`]). Other memory of callers goes through the staging buffers. Memory
//! of GPUs is used in place or left to [`crate::staged`]: if NICs take it, it is known, and the node is on another host.

mod ask;
mod bytes;
mod callers_memory;
mod carrier;
mod device;
mod lender;
mod peer;
mod peers;
mod read;
mod staging;
mod write;

pub(crate) use callers_memory::CallersMemory;
pub(crate) use carrier::{Far, FarMessages};
pub use device::{DeviceWish, NO_NIC};
pub use lender::FarLender;
