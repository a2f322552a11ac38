//! The metrics of tenants, under the names of the C++ package. There are as many as tenants have quotas, and a few more.

use std::fmt;

use mooncake_http::prometheus::{Family, Metrics};
use mooncake_meta::TenantReport;

use super::snapshot::Snapshot;

/// A metric of each tenant: name, help, value.
type OfTenant = (&'static str, &'static str, fn(&TenantReport) -> u64);

const GAUGES: [OfTenant; 9] = [
    ("mooncake_tenant_quota_requested_bytes", "The quota of the tenant", |it| {
        it.quota.map_or(0, |quota| quota.bytes)
    }),
    ("mooncake_tenant_quota_effective_bytes", "What the tenant is guaranteed now", |it| {
        it.guaranteed_bytes
    }),
    ("mooncake_tenant_quota_burst_bytes", "Most bytes that the tenant may have now", |it| {
        it.most_bytes
    }),
    ("mooncake_tenant_quota_charged_bytes", "Bytes of the tenant in memory", |it| it.bytes),
    ("mooncake_tenant_pinned_bytes", "Of these, bytes of hard-pinned objects", |it| {
        it.pinned_bytes
    }),
    ("mooncake_tenant_objects", "Objects of the tenant in memory", |it| it.objects),
    ("mooncake_tenant_quota_admission_closed", "1 if the tenant may not put", |it| {
        it.quota.is_none().into()
    }),
    ("mooncake_tenant_quota_over_quota", "1 if it has more than it is guaranteed", |it| {
        it.is_over().into()
    }),
    ("mooncake_tenant_quota_explicit_policy", "1 if the tenant has a quota", |it| {
        it.quota.is_some().into()
    }),
];

const COUNTERS: [OfTenant; 4] = [
    ("mooncake_tenant_quota_reject_total", "Puts that were refused for the quota", |it| {
        it.refused_puts
    }),
    ("mooncake_tenant_evict_bytes_total", "Bytes of the tenant that were evicted", |it| {
        it.evicted_bytes
    }),
    ("mooncake_tenant_lookups_total", "Keys that reads of the tenant looked up", |it| it.lookups),
    ("mooncake_tenant_lookup_hits_total", "Of these, keys that were found", |it| it.hits),
];

pub(super) fn write(snapshot: &Snapshot, out: &mut Metrics<'_, '_>) -> fmt::Result {
    let tenants = &snapshot.tenants;
    if tenants.is_empty() {
        return Ok(());
    }
    let samples = |value: fn(&TenantReport) -> u64| {
        tenants.iter().map(move |tenant| (&*tenant.name, value(tenant)))
    };
    let family = |name, help| Family { name, help, label: "tenant_id" };
    for (name, help, value) in GAUGES {
        out.gauges(family(name, help), samples(value))?;
    }
    for (name, help, value) in COUNTERS {
        out.counters(family(name, help), samples(value))?;
    }
    let sum = |value: fn(&TenantReport) -> u64| {
        tenants.iter().fold(0_u64, |sum, tenant| sum.saturating_add(value(tenant)))
    };
    out.gauge(
        "mooncake_tenant_quota_allocatable_capacity_bytes",
        "Memory that the quotas share",
        snapshot.tenant_memory,
    )?;
    out.gauge(
        "mooncake_tenant_quota_requested_bytes_sum",
        "All quotas together",
        sum(|it| it.quota.map_or(0, |quota| quota.bytes)),
    )?;
    out.gauge(
        "mooncake_tenant_quota_effective_bytes_sum",
        "What is guaranteed to all tenants together",
        sum(|it| it.guaranteed_bytes),
    )
}
