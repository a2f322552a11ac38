//! Tells who subscribes by ZeroMQ which keys are kept where: a stream of numbered batches of events, the latest of them once more
//! for who missed some, and all that there is for who begins.
//!
//! The owner of the keys hands events in ([`Publisher::publish`]) and does not wait. A thread of its own numbers and encodes them
//! (`publisher.rs`) and keeps the latest batches (`history.rs`). Each subscriber has a place in these and goes on from there as fast
//! as it reads (`subscriber.rs`): one that is slow skips batches, sees that by their numbers, and costs nothing.
//!
//! Of ZeroMQ's protocol this speaks the little that a publisher needs (`zmtp.rs`). The library for it keeps 100,000 messages
//! for each subscriber that does not read, however long they are.

mod event;
mod follow;
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
pub use snapshot::{Page, Snapshot};
