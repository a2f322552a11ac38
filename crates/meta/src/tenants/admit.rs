//! Puts of tenants: who may put, and how a tenant makes room for its own puts within its quota.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Tenant, limits};
use smallvec::SmallVec;

use super::lane::lane_of_account;
use super::quota::TenantQuota;
use crate::Meta;
use crate::effort::CHANGE;
use crate::eviction::CHOICES;
use crate::objects::{PINNED_PLACES, PLAIN_PLACES, Pin, QueueKind};

/// Most segments on which one eviction within a tenant looks for a victim.
const CANDIDATES: usize = 64;

/// What a tenant has, or what a put adds to it.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    bytes: u64,
    objects: u64,
}

impl Meta {
    /// Sets the quota of a tenant, or takes it away.
    ///
    /// # Errors
    /// [`ErrorCode::UnavailableInCurrentMode`] unless quotas are enforced; [`ErrorCode::InvalidParams`] for a quota that
    /// makes no sense, or for one more than [`limits::MAX_TENANT_QUOTAS`]; [`ErrorCode::TenantNotRegistered`] if there is
    /// no quota to take away, and [`ErrorCode::TenantNotEmpty`] if the tenant still has something in memory.
    pub fn set_tenant_quota(
        &mut self,
        tenant: &Tenant,
        quota: Option<TenantQuota>,
    ) -> Result<(), ErrorCode> {
        if !self.tenants.is_enforced() {
            return Err(ErrorCode::UnavailableInCurrentMode);
        }
        let found = self.tenants.find(tenant.name());
        let is_registered =
            found.is_some_and(|account| self.tenants.accounts[account].quota.is_some());
        let account = match quota {
            Some(quota) => {
                let is_full = !is_registered && self.tenants.quotas() >= limits::MAX_TENANT_QUOTAS;
                if is_full || quota.validate().is_err() {
                    return Err(ErrorCode::InvalidParams);
                }
                self.tenants.open(tenant.name())
            }
            None => {
                let account =
                    found.filter(|_| is_registered).ok_or(ErrorCode::TenantNotRegistered)?;
                if self.tenants.accounts[account].ranges > 0 {
                    return Err(ErrorCode::TenantNotEmpty);
                }
                account
            }
        };
        self.tenants.set_quota(account, quota);
        self.tenants.close_if_empty(account);
        if quota.is_some() {
            self.note_crowded_tenant(account);
        }
        Ok(())
    }

    /// Admits a put of so many bytes in all replicas, and evicts objects of its tenant if it would exceed the quota.
    /// The evictions that follow are for this tenant. The object will be hard-pinned if `pins`; `replaced` is the object
    /// that the put replaces.
    ///
    /// # Errors
    /// [`ErrorCode::TenantNotRegistered`], [`ErrorCode::TenantQuotaExceeded`], or
    /// [`ErrorCode::UnavailableInCurrentStatus`] if room is being made.
    pub(crate) fn admit_put(
        &mut self,
        key: &str,
        bytes: u64,
        (pins, replaced): (bool, Option<u32>),
    ) -> Result<(), ErrorCode> {
        if !self.tenants.is_enforced() {
            return Ok(());
        }
        let registered = |&account: &u32| self.tenants.accounts[account].quota.is_some();
        let account = self.tenants.of_key(key).filter(registered);
        let account = account.ok_or(ErrorCode::TenantNotRegistered)?;
        let unpinned = replaced.map_or(0, |object| self.pinned_bytes_of(object));
        let pins = pins || unpinned > 0;
        let made = match pins && !self.may_pin(account, bytes, unpinned) {
            true => Err(ErrorCode::TenantQuotaExceeded),
            false => self.make_room_within(account, Need { bytes, objects: 1 }),
        };
        match made {
            Err(ErrorCode::UnavailableInCurrentStatus) => self.counters.puts_delayed += 1,
            Err(_) => self.tenants.accounts[account].counts.refused_puts += 1,
            Ok(()) => {}
        }
        self.effort.lane = lane_of_account(account);
        made
    }

    /// Admits a further replica of an object in memory, as [`admit_put`](Self::admit_put) does for a put. `evicts` says
    /// whether other objects of the tenant may be evicted for it.
    pub(crate) fn admit_copy(&mut self, object: u32, evicts: bool) -> Result<(), ErrorCode> {
        if !self.tenants.is_enforced() {
            return Ok(());
        }
        // A tenant that is not registered keeps what it has, and gets no more.
        let account = self.tenants.of_key(&self.objects[object].key);
        let account = account.ok_or(ErrorCode::TenantNotRegistered)?;
        self.effort.lane = lane_of_account(account);
        let record = &self.objects[object];
        if record.pin == Pin::Hard && !self.may_pin(account, record.len, 0) {
            return Err(ErrorCode::TenantQuotaExceeded);
        }
        let need = Need { bytes: record.len, objects: u64::from(!self.counts_in_memory(object)) };
        match self.exceeds(account, need, 0) {
            true if evicts => self.make_room_within(account, need),
            true => Err(ErrorCode::TenantQuotaExceeded),
            false => Ok(()),
        }
    }

    /// Whether a tenant may pin so many bytes, if others of its pinned bytes go: what is pinned never gives way, so all
    /// of it must be within what is guaranteed.
    fn may_pin(&self, account: u32, bytes: u64, unpinned: u64) -> bool {
        let (it, capacity) = (&self.tenants.accounts[account], self.segments.memory_bytes());
        // Without memory a put is refused for that reason.
        let Some(quota) = it.quota.as_ref().filter(|_| capacity > 0) else { return true };
        let pinned = (it.pinned - unpinned).saturating_add(bytes);
        pinned <= self.tenants.guaranteed_bytes(quota, capacity)
    }

    /// Evicts objects of a tenant until the need fits into its quota. Evicts nothing if it never does.
    fn make_room_within(&mut self, account: u32, need: Need) -> Result<(), ErrorCode> {
        if !self.exceeds(account, need, 0) {
            return Ok(());
        }
        if self.would_exceed(account, Need::default(), need) {
            return Err(ErrorCode::TenantQuotaExceeded);
        }
        self.effort.begin_replica();
        self.effort.lane = lane_of_account(account);
        while self.exceeds(account, need, self.tenants.accounts[account].sinking) {
            if !self.effort.take(CHANGE) || !self.evict_within(account) {
                break;
            }
        }
        let is_sinking = self.tenants.accounts[account].sinking > 0 && self.is_making_room();
        match self.exceeds(account, need, 0) {
            false => Ok(()),
            true if is_sinking => Err(ErrorCode::UnavailableInCurrentStatus),
            true => Err(ErrorCode::TenantQuotaExceeded),
        }
    }

    /// Whether a tenant would have more than it may have, if so many of its bytes came free.
    fn exceeds(&self, account: u32, need: Need, free_bytes: u64) -> bool {
        let it = &self.tenants.accounts[account];
        let held = Need { bytes: it.bytes - free_bytes, objects: it.objects };
        self.would_exceed(account, held, need)
    }

    fn would_exceed(&self, account: u32, held: Need, need: Need) -> bool {
        // Without memory a put is refused for that reason.
        let capacity = self.segments.memory_bytes();
        let counts = capacity > 0 && !is_broken(Rule::QuotasAreKept);
        let quota = self.tenants.accounts[account].quota.filter(|_| counts);
        let Some(quota) = quota else { return false };
        let bytes = held.bytes.saturating_add(need.bytes);
        let most_objects = quota.burst_objects.or(quota.objects);
        bytes > self.tenants.most_bytes(&quota, capacity)
            || most_objects.is_some_and(|most| held.objects + need.objects > most)
    }

    /// Evicts the object of a tenant that is worth least on one of a few segments. False if nothing could be evicted.
    fn evict_within(&mut self, account: u32) -> bool {
        let lane = lane_of_account(account);
        let begin = self.chance.place(self.segments.end().max(1) as usize) as u32;
        let pinned_too = self.config.allow_evict_soft_pinned;
        let pinned_places = if pinned_too { PINNED_PLACES } else { 0..0 };
        let mut found: SmallVec<[(_, u32); CHOICES]> = SmallVec::new();
        for slot in self.segments.with_lane(lane, begin).take(CANDIDATES) {
            let least = |places| self.least_rank_in((slot, lane), places);
            let plain = least(PLAIN_PLACES).map(|rank| (false, rank));
            let or_pinned = || least(pinned_places.clone()).map(|rank| (true, rank));
            if let Some(rank) = plain.or_else(or_pinned) {
                found.push((rank, slot));
            }
            if found.len() == CHOICES {
                break;
            }
        }
        found.sort_unstable();
        for (_, slot) in found {
            let victim = self.next_victim_in(slot, lane, pinned_too);
            let victim = victim.filter(|&range| self.may_evict_range(range));
            self.counters.count_eviction(self.segments[slot].medium, victim.is_some());
            let Some(victim) = victim else { continue };
            self.evict_range(victim);
            let sinks = |range: &crate::objects::Range| range.queue == QueueKind::Sinking;
            // An object stays if its copy to a disk cannot begin.
            if self.ranges.get(victim).is_none_or(sinks) {
                return true;
            }
        }
        false
    }

    /// Notes that a tenant may be above the watermark of its quota.
    pub(super) fn note_crowded_tenant(&mut self, account: u32) {
        if self.tenants.high_watermark > 0.0 && self.quiet_excess(account, 0.0) > 0 {
            self.tenants.crowded.insert(account);
        }
    }

    /// Bytes that a tenant has above the watermark of its quota, or so much of the quota below it.
    fn quiet_excess(&self, account: u32, below: f64) -> u64 {
        let account = &self.tenants.accounts[account];
        let Some(quota) = &account.quota else { return 0 };
        let most = self.tenants.most_bytes(quota, self.segments.memory_bytes());
        let quiet = most as f64 * (self.tenants.high_watermark - below).max(0.0);
        (account.bytes - account.sinking).saturating_sub(quiet as u64)
    }

    /// Evicts objects of tenants that are above the watermark of their quotas, in bounded steps.
    pub(crate) fn relieve_crowded_tenants(&mut self) {
        if !self.serves() {
            // The quotas are shares of a pool whose nodes have yet to report.
            return self.tenants.crowded.clear();
        }
        while let Some(&account) = self.tenants.crowded.first()
            && self.effort.spend(CHANGE)
        {
            self.effort.lane = lane_of_account(account);
            let is_above = self.quiet_excess(account, self.config.eviction_ratio) > 0;
            if !is_above || !self.evict_within(account) {
                self.tenants.crowded.remove(&account);
            }
        }
    }
}
