//! Who leads a cluster of masters, and what must outlive each of them.
//!
//! A [`Coordinator`] is a place outside of the masters: an etcd cluster, a Redis server, a Lease of Kubernetes, a
//! folder of one host, or memory for tests. It never holds objects; it holds two small things.
//!
//! - **Who leads.** Masters [campaign](Coordinator::campaign). One wins a [`Leadership`] with an [epoch](Leadership::epoch)
//!   above all before, and keeps it by [renewing](Leadership::keep) its lease. It counts its lease from *before* it
//!   asked for it, and uses nine tenths of it, so it stops by its own clock before another may begin. Clients ask who
//!   [leads](Coordinator::leader), and [watch](Coordinator::watch).
//! - **The membership [`Record`]**: which segments count, which of them are behind, and the highest epoch. Only the
//!   leader changes it ([`Leadership::apply`]), and the coordinator refuses whoever leads no more, however late its
//!   write comes.
//!
//! A single master has the same without an election: [`StateFile::lead`].
//!
//! All calls block, for a bounded time; the master has threads for them. Enter at [`connect`].

#![forbid(unsafe_code)]

mod backend;
pub mod boot_time;
mod coordinator;
mod durable;
mod epoch;
mod error;
mod etcd;
mod file;
mod holder;
mod http;
mod kubernetes;
mod leadership;
mod location;
mod memory;
mod options;
mod record;
mod redis;
mod state_file;

pub use coordinator::{Campaign, Candidate, Coordinator, connect};
pub use epoch::epoch_of_now;
pub use error::{AddressError, CoordinatorError, StateFileError};
pub use holder::LeaderView;
pub use kubernetes::KubernetesAccess;
pub use leadership::{Ended, Leadership};
pub use location::is_locator;
pub use memory::{MemoryStore, Stall};
pub use options::{DEFAULT_SUSPENSION, DEFAULT_TTL, Options};
pub use record::{Change, Member, Record};
pub use state_file::StateFile;
