//! The client of Mooncake Store: puts objects into the pool and gets them back, and lends memory to it.
//!
//! Enter at [`Store`]:
//!
//! ```no_run
//! use mooncake_client::{ReplicateConfig, Store, StoreConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::open(StoreConfig {
//!     local_hostname: "localhost".to_owned(),
//!     master: "127.0.0.1:50051".to_owned(),
//!     segment_bytes: 64 << 20,
//!     ..StoreConfig::default()
//! })?;
//! store.put_bytes("greeting", b"hello", &ReplicateConfig::default())?;
//! for found in store.get(&["greeting"]) {
//!     assert_eq!(found?.as_slice(), b"hello");
//! }
//! store.close();
//! # Ok(())
//! # }
//! ```
//!
//! Every call blocks only its own thread. The only async runtime is that of the HTTP server, on its own thread, if
//! the configuration asks for one. Pure machines, without sockets, clocks or threads, decide what to send next, when
//! to retry, and what a reply means: [`mooncake_ops`] for the operations, [`membership`] for a client's membership,
//! [`mooncake_node::Ledger`] for lent memory. [`Store`] is the thin shell that runs them.
//!
//! A get returns all bytes of one committed version, checked, or an error. Whatever the master said, the node that
//! holds the bytes confirms the version after they were read.

#![forbid(unsafe_code)]

mod address;
mod bind;
mod clock;
mod config;
mod drive;
mod fabric_device;
mod heartbeat;
mod hot_cache;
mod http;
mod leader;
mod mem_pool;
pub mod membership;
mod metrics;
mod nearest;
pub mod no_effect;
mod offload_config;
mod open_error;
mod plain_lines;
mod pointer;
mod probe;
mod random;
mod registered_buffers;
mod rpc;
mod store;
mod store_condition;
mod task_queue;
mod tasks;
mod unreachable_segments;
mod worker;
mod zero_copy_get;

pub use config::{HttpAddress, RdmaConfig, StoreConfig};
pub use fabric_device::open_fabric_device;
pub use leader::{FoundLeader, find_leader};
pub use mem_pool::{CallRange, MemPool, SetAside};
pub use mooncake_device::{Direction as CopyDirection, Job as CopyJob, StreamCounter, copy_each};
pub use mooncake_http::ListenError;
pub use mooncake_memory::{
    Buffer, HostMemory, Place, PlacedSlice, RawSlice, Region, SliceList, bind_to_numa_node,
};
pub use mooncake_node::file_of_range;
pub use mooncake_ops::{ListedPage, ObjectLocation, ReplicaLocation, Stripe};
pub use mooncake_transfer::{
    EnvError, HotCacheConfig, HotCacheCounts, TokenFileError, is_served_by_tcp, read_token_file,
};
pub use mooncake_types::{
    Chance, ErrorCode, ExistOptions, LogLimiter, PrefetchLimits, PutItem, ReplicateConfig,
    SegmentId, ShownKey, SoftPin, TaskId, TaskKind, TaskReport, TaskStatus, Tenant, Version,
};
pub use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
pub use nearest::nearest;
pub use offload_config::OffloadConfig;
pub use open_error::OpenError;
pub use plain_lines::PlainLines;
pub use pointer::describe_pointer;
pub use probe::{ProbeLeases, probe};
pub use registered_buffers::{KnownMemory, RegisteredBuffers};
pub use store::{
    AllocatedSegment, Fragment, GetTarget, Health, PutSource, Ranged, RangedReadSnapshot, Rooms,
    Store, parse_segment_id,
};
pub use zero_copy_get::ObjectBytes;
