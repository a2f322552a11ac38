//! Tenants and their quotas: how much memory each tenant has, how much it may have, and whose objects give way.
//!
//! The tenant of an object is a part of the object's key ([`split_tenant`](mooncake_types::split_tenant)), so no record
//! has a field for it, and a new leader learns it with the inventories. The quotas are not a part of the pool's state:
//! the shell reads them from a file or a coordinator, and sets them ([`Meta::set_tenant_quota`](crate::Meta)).
//!
//! Without [`Config::multi_tenants`](crate::Config) nothing here costs anything: no account exists, and the objects of
//! all tenants are in the same queues. With it,
//!
//! - an [account](account) is [charged](charge) for each range in memory, in the functions that make and free ranges and
//!   reservations, and nowhere else;
//! - a put is [admitted](admit) within the burst of its tenant, and evicts objects of the same tenant for that. Hard-pinned
//!   objects are admitted within the share that is guaranteed, since no tenant can make them give way;
//! - each tenant has a [lane](lane) of queues of its own on each memory segment, and eviction takes the lane first whose
//!   tenant is furthest above its share ([order](order)). A tenant within its share gives way only to itself;
//! - what eviction learns of the use of objects, it learns for each tenant apart ([usage](usage)).
//!
//! Disks have one lane for all tenants, and no quotas.
//!
//! Invariants: an account exists as long as its tenant has a quota or a range in memory. What it says is the sum over the
//! records ([check](check)).

mod account;
mod admit;
mod charge;
mod check;
mod lane;
mod order;
mod quota;
mod report;
mod usage;

pub(crate) use self::account::Tenants;
pub(crate) use self::lane::{Lane, NO_LANE};
pub use self::quota::{InvalidQuota, TenantQuota};
pub use self::report::TenantReport;
