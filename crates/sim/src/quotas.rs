//! Quotas of tenants, and the check that no put exceeds them.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_meta::{Meta, TenantQuota};
use mooncake_types::{Medium, Tenant, Version, split_tenant};

use crate::key::{KEYS, other_tenant};
use crate::master::Granted;
use crate::scenario::Scenario;
use crate::world::World;

/// The quotas of both tenants. Together they may have more than the memory of all nodes.
fn quotas(scenario: &Scenario) -> [(Tenant, TenantQuota); 2] {
    let memory = scenario.nodes as u64 * scenario.segment_len;
    let share = TenantQuota {
        burst_bytes: Some(memory * 3 / 4),
        ..TenantQuota::of_bytes((memory / 4).max(1))
    };
    let few = TenantQuota { objects: Some(2), burst_objects: Some(4), ..share };
    [(Tenant::default(), share), (other_tenant(), few)]
}

/// Sets the quotas of a new leader, if there are any.
pub(crate) fn set(scenario: &Scenario, meta: &mut Meta) {
    if scenario.has_quotas {
        for (tenant, quota) in quotas(scenario) {
            meta.set_tenant_quota(&tenant, Some(quota)).expect("quotas are enforced");
        }
    }
}

impl World {
    /// With what was just granted, a tenant has no more than its quota allows. What readers can get counts, and what was
    /// granted, whatever the leader's own accounts say.
    pub(crate) fn check_quotas(&mut self, granted: &[Granted]) {
        if !self.scenario.has_quotas || granted.is_empty() {
            return;
        }
        let (meta, keys) = (&self.masters[self.leader].meta, self.run_state.keys);
        let mut versions: BTreeMap<&str, (u64, BTreeSet<Version>)> = BTreeMap::new();
        let mut add = |key: &'static str, version: Version, len: u64| {
            let (bytes, objects) = versions.entry(split_tenant(key).0).or_default();
            *bytes += len;
            objects.insert(version);
        };
        for grant in granted {
            add(grant.key, grant.version, grant.range.1);
        }
        for &key in KEYS.iter().take(keys) {
            let Some(report) = meta.peek(key).filter(|report| report.complete) else { continue };
            for range in &report.located.placements {
                if report.segments[range.segment as usize].medium == Medium::Memory {
                    add(key, report.located.version, range.len);
                }
            }
        }
        for (tenant, quota) in quotas(&self.scenario) {
            let is_granted = granted.iter().any(|it| split_tenant(it.key).0 == tenant.name());
            let Some((bytes, objects)) = versions.get(tenant.name()).filter(|_| is_granted) else {
                continue;
            };
            let most_bytes = quota.burst_bytes.unwrap_or(quota.bytes);
            let most_objects = quota.burst_objects.unwrap_or(u64::MAX);
            if *bytes > most_bytes || objects.len() as u64 > most_objects {
                let text = format!("{tenant} has {bytes} bytes in {objects:?} of {quota:?}");
                self.run_state.blame("no put exceeds the quota of its tenant", text);
            }
        }
    }
}
