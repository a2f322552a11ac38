//! Accounts: what each tenant has in memory, and what happened to it. The functions in [`charge`](super::charge) keep
//! what it has.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use mooncake_types::split_tenant;

use super::lane::{NO_LANE, lane_of_account};
use super::quota::TenantQuota;
use crate::eviction::Usage;
use crate::slab::Slab;
use crate::{EvictionPolicy, Meta};

/// All accounts. There are none unless quotas are enforced.
#[derive(Debug)]
pub(crate) struct Tenants {
    is_enforced: bool,
    /// The share of what a tenant may have above which its objects are evicted between requests; zero: they are not.
    pub(super) high_watermark: f64,
    pub(super) accounts: Slab<Account>,
    by_name: HashMap<Box<str>, u32, FixedState>,
    /// Bytes that are guaranteed to all tenants together.
    guaranteed: u128,
    /// Tenants that are above the watermark, or were recently.
    pub(super) crowded: BTreeSet<u32>,
    policy: EvictionPolicy,
}

/// One tenant that has a quota or a range in memory.
#[derive(Debug)]
pub(crate) struct Account {
    pub(super) name: Box<str>,
    pub(super) quota: Option<TenantQuota>,
    /// Bytes and number of its ranges in memory: of its objects and running puts, and those that are reserved for
    /// writers of puts and copies that were given up.
    pub(super) bytes: u64,
    pub(super) ranges: u64,
    /// Objects that have a range in memory.
    pub(super) objects: u64,
    /// Of its bytes, those that come free once their objects lie on disks.
    pub(super) sinking: u64,
    /// Of its bytes, those of hard-pinned objects, from their grant on.
    pub(super) pinned: u64,
    pub(super) counts: TenantCounts,
    /// What is known of the use of its objects.
    pub(super) usage: Usage,
}

/// What happened to a tenant since its account was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TenantCounts {
    pub(super) lookups: u64,
    pub(super) hits: u64,
    pub(super) refused_puts: u64,
    pub(super) evicted_bytes: u64,
}

impl Account {
    fn new(name: &str, policy: EvictionPolicy) -> Self {
        Self {
            name: name.into(),
            quota: None,
            bytes: 0,
            ranges: 0,
            objects: 0,
            sinking: 0,
            pinned: 0,
            counts: TenantCounts::default(),
            usage: Usage::new(policy),
        }
    }
}

impl Tenants {
    pub(crate) fn new(is_enforced: bool, high_watermark: f64, policy: EvictionPolicy) -> Self {
        Self {
            is_enforced,
            high_watermark,
            accounts: Slab::default(),
            by_name: HashMap::default(),
            guaranteed: 0,
            crowded: BTreeSet::new(),
            policy,
        }
    }

    /// Whether tenants need quotas.
    #[inline]
    pub(crate) fn is_enforced(&self) -> bool {
        self.is_enforced
    }

    /// Whether there are tenants above the watermark.
    pub(crate) fn has_work(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// The account of the tenant that has this stored key.
    pub(crate) fn of_key(&self, key: &str) -> Option<u32> {
        self.find(split_tenant(key).0)
    }

    /// The account of the tenant of this name.
    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn open(&mut self, name: &str) -> u32 {
        self.find(name).unwrap_or_else(|| {
            let account = self.accounts.insert(Account::new(name, self.policy));
            self.by_name.insert(name.into(), account);
            account
        })
    }

    /// Closes an account that has neither a quota nor a range.
    pub(super) fn close_if_empty(&mut self, account: u32) {
        let it = &self.accounts[account];
        if it.quota.is_none() && it.ranges == 0 {
            self.by_name.remove(&self.accounts.remove(account).name);
            self.crowded.remove(&account);
        }
    }

    pub(super) fn set_quota(&mut self, account: u32, quota: Option<TenantQuota>) {
        let before = std::mem::replace(&mut self.accounts[account].quota, quota);
        self.guaranteed += u128::from(quota.map_or(0, |quota| quota.bytes));
        self.guaranteed -= u128::from(before.map_or(0, |quota| quota.bytes));
    }

    /// How many tenants have quotas.
    pub(super) fn quotas(&self) -> usize {
        self.accounts.iter().filter(|(_, account)| account.quota.is_some()).count()
    }

    /// What is guaranteed to a tenant of this quota in a pool of so much memory.
    pub(super) fn guaranteed_bytes(&self, quota: &TenantQuota, capacity: u64) -> u64 {
        match self.guaranteed > u128::from(capacity) {
            true => (u128::from(quota.bytes) * u128::from(capacity) / self.guaranteed) as u64,
            false => quota.bytes,
        }
    }

    /// The most bytes that a tenant of this quota may have in a pool of so much memory.
    pub(super) fn most_bytes(&self, quota: &TenantQuota, capacity: u64) -> u64 {
        quota.burst_bytes.unwrap_or_else(|| self.guaranteed_bytes(quota, capacity))
    }
}

impl Meta {
    /// The account of the tenant of an object that has a range in memory.
    pub(super) fn account_of(&self, object: u32) -> u32 {
        let account = self.tenants.of_key(&self.objects[object].key);
        account.expect("a tenant with a range in memory has an account")
    }

    /// The lane in which ranges of an object stand on a segment.
    #[inline]
    pub(crate) fn lane_on(&self, object: u32, segment: u32) -> u32 {
        match self.is_charged(segment) {
            true => lane_of_account(self.account_of(object)),
            false => NO_LANE,
        }
    }

    /// As [`lane_on`](Self::lane_on), for an object of this stored key that may have no range yet.
    pub(crate) fn lane_of_key(&self, key: &str, segment: u32) -> u32 {
        match self.is_charged(segment) {
            true => self.tenants.of_key(key).map_or(NO_LANE, lane_of_account),
            false => NO_LANE,
        }
    }

    /// Counts a look-up of a stored key.
    #[inline]
    pub(crate) fn count_tenant_lookup(&mut self, key: &str, is_hit: bool) {
        if self.tenants.is_enforced
            && let Some(account) = self.tenants.of_key(key)
        {
            let counts = &mut self.tenants.accounts[account].counts;
            counts.lookups += 1;
            counts.hits += u64::from(is_hit);
        }
    }

    /// Counts evicted bytes of an object, which had them in memory.
    #[inline]
    pub(crate) fn count_tenant_eviction(&mut self, object: u32, bytes: u64) {
        if self.tenants.is_enforced
            && let Some(account) = self.tenants.of_key(&self.objects[object].key)
        {
            self.tenants.accounts[account].counts.evicted_bytes += bytes;
        }
    }
}
