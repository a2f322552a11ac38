//! The number of replicas: [`repair`] makes lost ones again, and [`replicate`] makes more of what is read often ([`heat`]).
//!
//! Both submit copy [tasks](crate::tasks) of their own origin. Neither evicts anything: a copy takes only room that is free.
//! Which objects lack replicas, and which have more than were asked for, is known to [`objects`](crate::objects).

mod allowance;
mod heat;
mod repair;
mod repairs;
mod replicate;
mod replicator;

pub(crate) use self::heat::Heat;
pub(crate) use self::repairs::Repair;
pub(crate) use self::replicator::Replicator;
