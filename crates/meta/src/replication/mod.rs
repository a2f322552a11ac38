//! The number of replicas: [`repair`] makes lost replicas again, and [`replicate`] adds replicas to objects that are
//! read often ([`heat`]).
//!
//! Both submit copy [tasks](crate::tasks) with an origin of their own. They evict nothing: a copy takes only free
//! room. [`objects`](crate::objects) knows which objects lack replicas, and which have more than were asked for.

mod allowance;
mod heat;
mod repair;
mod repairs;
mod replicate;
mod replicator;

pub(crate) use self::heat::Heat;
pub(crate) use self::repairs::Repair;
pub(crate) use self::replicator::Replicator;
