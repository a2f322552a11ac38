//! Publishes over ZeroMQ which tier stores which keys. Subscribers get a stream of numbered batches of events. A
//! subscriber that missed batches can have the latest ones replayed, and a new one can have a snapshot of all keys.
//!
//! The owner of the keys passes events to [`Publisher::publish`], which does not block. The publisher's thread numbers
//! and encodes them (`publisher.rs`), and keeps the latest batches (`history.rs`). Each subscriber reads from the
//! history at its own speed (`subscriber.rs`). A slow one skips batches, and sees that by their numbers.
//!
//! The crate implements only the part of ZeroMQ's protocol that a publisher needs (`greeting.rs`, `zmtp.rs`). The official
//! library would queue 100,000 messages for each subscriber that does not read, whatever their length.

#![forbid(unsafe_code)]

mod event;
mod follow;
mod greeting;
mod history;
mod message;
mod publisher;
mod queue;
mod replay;
mod shared;
mod snapshot;
mod subscriber;
mod zmtp;

pub use event::{Change, Event, Fields, Tier};
pub use follow::follow;
pub use publisher::{Config, Publisher, Stats};
pub use shared::Passwords;
pub use snapshot::{Page, Snapshot};
