//! What operators see of tenants.

use super::account::{Account, TenantCounts};
use super::quota::TenantQuota;
use crate::Meta;

/// One tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantReport {
    /// Its name.
    pub name: String,
    /// Its quota; absent if it may not put.
    pub quota: Option<TenantQuota>,
    /// Bytes that are guaranteed to it in the present pool.
    pub guaranteed_bytes: u64,
    /// Most bytes that it may have in the present pool.
    pub most_bytes: u64,
    /// Bytes that it has in memory: all replicas, those of running puts and of objects that are being dropped included,
    /// and what is reserved for writers of puts that were given up.
    pub bytes: u64,
    /// Of these, the bytes of hard-pinned objects.
    pub pinned_bytes: u64,
    /// Objects that it has in memory.
    pub objects: u64,
    /// Keys that its reads looked up, and those that they found.
    pub lookups: u64,
    /// See `lookups`.
    pub hits: u64,
    /// Puts that were refused for its quota.
    pub refused_puts: u64,
    /// Bytes in memory that were evicted.
    pub evicted_bytes: u64,
}

impl TenantReport {
    /// Whether it has more than is guaranteed to it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let most_objects = self.quota.and_then(|quota| quota.objects).unwrap_or(u64::MAX);
        self.bytes > self.guaranteed_bytes || self.objects > most_objects
    }
}

impl Meta {
    /// Whether tenants need quotas.
    #[must_use]
    pub fn enforces_quotas(&self) -> bool {
        self.tenants.is_enforced()
    }

    /// The tenant of this name, if it has a quota or anything in memory.
    #[must_use]
    pub fn tenant(&self, name: &str) -> Option<TenantReport> {
        let account = self.tenants.find(name)?;
        Some(self.report_tenant(&self.tenants.accounts[account]))
    }

    /// Tenants that have a quota or anything in memory, in no order: those with quotas, and at most `others` others.
    #[must_use]
    pub fn tenants(&self, others: usize) -> Vec<TenantReport> {
        let accounts = || self.tenants.accounts.iter().map(|(_, account)| account);
        let registered = accounts().filter(|account| account.quota.is_some());
        let others = accounts().filter(|account| account.quota.is_none()).take(others);
        registered.chain(others).map(|account| self.report_tenant(account)).collect()
    }

    /// Memory of the pool, in bytes: what the quotas share.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.segments.memory_bytes()
    }

    fn report_tenant(&self, account: &Account) -> TenantReport {
        let capacity = self.segments.memory_bytes();
        let of_quota = |bytes: fn(&super::Tenants, &TenantQuota, u64) -> u64| {
            account.quota.map_or(0, |quota| bytes(&self.tenants, &quota, capacity))
        };
        let TenantCounts { lookups, hits, refused_puts, evicted_bytes } = account.counts;
        TenantReport {
            name: account.name.to_string(),
            quota: account.quota,
            guaranteed_bytes: of_quota(super::Tenants::guaranteed_bytes),
            most_bytes: of_quota(super::Tenants::most_bytes),
            bytes: account.bytes,
            pinned_bytes: account.pinned,
            objects: account.objects,
            lookups,
            hits,
            refused_puts,
            evicted_bytes,
        }
    }
}
