//! The vocabulary of every other crate: ids, versions, ticks, error codes, limits, and the requests and replies of the
//! master as plain data.
//!
//! This crate has no I/O, no clock and no dependency: callers of [`BusyWait`] and [`LogLimiter`] pass the time.
//!
//! Where to enter:
//! - [`Request`] and [`Reply`]: the requests of clients to the master, and its replies;
//! - [`RangeRead`] and [`RangeWrite`]: the requests of clients to a node;
//! - [`ErrorCode`]: the errors.

#![forbid(unsafe_code)]

mod access;
mod address_text;
mod busy_wait;
mod byte_size;
mod call_id;
mod chance;
mod drain;
mod dummy;
mod error;
mod error_advice;
mod failure_domains;
mod fair_places;
mod follow;
pub mod host_port;
mod ids;
mod inventory;
pub mod limits;
mod log_limiter;
mod medium;
#[doc(hidden)]
pub mod mutation;
mod open_files;
mod overruled_key;
mod overruled_keys;
mod put;
mod range;
mod reads;
mod reply;
mod request;
mod rights;
mod seal;
mod secret;
mod shown_key;
mod state;
mod task;
mod tenant;
mod tick;
mod trace_parent;

pub use access::{Access, UnboundRight};
pub use address_text::without_password;
pub use busy_wait::BusyWait;
pub use byte_size::{ByteSize, ByteSizeError};
pub use call_id::CallId;
pub use chance::Chance;
pub use drain::{DrainId, DrainOrder, DrainReport, DrainStatus, NotADrainId};
pub use dummy::{DummyFragments, DummyObject, DummyPut, DummyReply, DummyRequest, Piece};
pub use error::ErrorCode;
pub use error_advice::ErrorAdvice;
pub use failure_domains::{FailureDomainError, FailureDomains};
pub use fair_places::FairPlaces;
pub use follow::{Follow, FollowPage, ListedSegment, SegmentPage};
pub use ids::{ClientId, Epoch, SegmentId, Version};
pub use inventory::{ChangesPage, EntryState, InventoryEntry, InventoryPage, MountOutcome};
pub use log_limiter::LogLimiter;
pub use medium::{Medium, SharedDirectory};
pub use open_files::descriptor_remedy;
pub use overruled_key::OverruledKey;
pub use overruled_keys::{OverruledFilter, OverruledKeys};
pub use put::{ReplicateConfig, SoftPin};
pub use range::{NodeDrop, RangeDrop, RangeRead, RangeWrite};
pub use reads::{ReadCounts, ReadReport, ReadVolume};
pub use reply::{
    Grant, Located, Placement, Pong, Prefetch, RemainingRange, Remains, Reply, ScanPage,
    SegmentAddress,
};
pub use request::{
    CreateTask, ExistOptions, MountSegment, PrefetchLimits, PutEnd, PutItem, PutMode, PutRevoke,
    PutStart, Request, Scan, ScanAction,
};
pub use rights::{NotARight, Rights};
pub use seal::{Seal, SealKey};
pub use secret::Secret;
pub use shown_key::ShownKey;
pub use state::{ReplicaStatus, SegmentState};
pub use task::{TaskId, TaskKind, TaskOrder, TaskOrders, TaskReport, TaskStatus};
pub use tenant::{DEFAULT_TENANT, NotATenant, Tenant, split as split_tenant, stored_beside};
pub use tick::Tick;
pub use trace_parent::TraceParent;
