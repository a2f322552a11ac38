//! Elects the leader of a cluster of masters, and keeps what must outlive each of them.
//!
//! A [`Coordinator`] is a place outside of the masters: an etcd cluster, a Redis server, a Lease of Kubernetes, a
//! folder of one host, or memory for tests. It never holds objects; it holds two small things.
//!
//! - **The leader.** Masters [campaign](Coordinator::campaign). One wins a [`Leadership`] with an
//!   [epoch](Leadership::epoch) above all before, and keeps it by [renewing](Leadership::keep) its lease. It counts
//!   the lease from *before* it asked for it, and uses nine tenths of it. So by its own clock it stops before another
//!   one may begin. Clients ask for the [leader](Coordinator::leader), and [watch](Coordinator::watch) it.
//! - **The membership [`Record`]**: which segments count, which of them are behind, and the highest epoch. Only the
//!   leader changes it ([`Leadership::apply`]). The coordinator refuses the write of a deposed leader, however late
//!   it comes.
//!
//! A single master has the same without an election: [`StateFile::lead`].
//!
//! [`Values`] keeps values under keys of the same servers, for programs without a leader.
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
mod values;

pub use coordinator::{CampaignOutcome, Candidate, Coordinator, connect};
pub use epoch::epoch_of_now;
pub use error::{AddressError, CoordinatorError, StateFileError};
pub use holder::LeaderView;
pub use kubernetes::{KubernetesAccess, Pod};
pub use leadership::{Ended, Leadership, Silence};
pub use location::is_locator;
pub use memory::{MemoryStore, Stall};
pub use options::{DEFAULT_SUSPENSION, DEFAULT_TTL, Options};
pub use record::{Change, Member, Record};
pub use state_file::StateFile;
pub use values::{Values, ValuesLogin};
