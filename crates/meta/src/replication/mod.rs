//! The number of replicas: repair makes lost ones again, and objects that are read often get more.
//!
//! Both submit copy tasks to [`tasks`](crate::tasks). Neither evicts anything.

mod allowance;
mod heat;
mod repair;
mod replicas;
mod replicate;

pub(crate) use self::repair::Repair;
pub(crate) use self::replicas::Extras;
pub(crate) use self::replicate::Replicator;
