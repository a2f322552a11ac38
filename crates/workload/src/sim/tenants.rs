//! Several tenants in one pool, each with a trace of its own: what each hits alone in its share of the pool, together
//! with the others without quotas, and with quotas. Each tenant is guaranteed an equal share, and may have the whole
//! pool while others leave it.

use std::fmt::Write as _;

use mooncake_meta::{EvictionPolicy, TenantQuota};
use mooncake_types::Tenant;

use super::SimError;
use super::args::SimArgs;
use super::table::size;
use crate::{Pool, PoolShape, Trace};

/// A tenant and the requests of its engine.
#[derive(Debug)]
pub(crate) struct TenantTrace {
    pub(crate) tenant: Tenant,
    pub(crate) trace: Trace,
}

/// The hits of one tenant, in a pool of one size with one policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TenantHits {
    /// Alone in a pool as large as its share.
    pub(crate) alone: u64,
    /// With the others, without quotas.
    pub(crate) shared: u64,
    /// With the others, with quotas.
    pub(crate) with_quotas: u64,
}

/// The whole text.
pub(super) fn compare(args: &SimArgs, tenants: &[TenantTrace]) -> Result<String, SimError> {
    let mut text = format!("{} tenants with equal shares:\n\n", tenants.len());
    for TenantTrace { tenant, trace } in tenants {
        let (requests, distinct) = (trace.requests.len(), trace.hash_ids.len());
        let blocks = trace.blocks();
        let _ =
            writeln!(text, "- {tenant}: {requests} requests, {blocks} blocks, {distinct} distinct");
    }
    text += "\nHits in % of all blocks of the tenant:\n\n\
             | pool | policy | tenant | alone in its share | together without quotas | with quotas |\n\
             |---|---|---|---|---|---|\n";
    for bytes in args.sizes(tenants.iter().map(|it| it.trace.hash_ids.len()).sum())? {
        for &policy in &args.policy {
            let all = hits(&args.shape(bytes, policy), tenants)?;
            for (TenantTrace { tenant, trace }, hits) in tenants.iter().zip(all) {
                let percent = |hits: u64| hits as f64 * 100.0 / trace.blocks().max(1) as f64;
                let [alone, shared, with_quotas] =
                    [hits.alone, hits.shared, hits.with_quotas].map(percent);
                let (pool, policy) = (size(bytes), EvictionPolicy::name(policy));
                let _ = writeln!(
                    text,
                    "| {pool} | {policy} | {tenant} | {alone:.2} | {shared:.2} | {with_quotas:.2} |"
                );
            }
        }
    }
    Ok(text)
}

/// The hits of each tenant in a pool of this shape.
pub(crate) fn hits(
    shape: &PoolShape,
    tenants: &[TenantTrace],
) -> Result<Vec<TenantHits>, SimError> {
    let share = shape.bytes / tenants.len() as u64;
    let quota = TenantQuota { burst_bytes: Some(shape.bytes), ..TenantQuota::of_bytes(share) };
    let quotas = tenants.iter().map(|it| (it.tenant.clone(), quota)).collect();
    let with_quotas = PoolShape { quotas, ..shape.clone() };
    let (shared, with_quotas) = (together(shape, tenants)?, together(&with_quotas, tenants)?);
    let alone = PoolShape { bytes: share, ..shape.clone() };
    let each = tenants.iter().zip(shared).zip(with_quotas);
    each.map(|((tenant, shared), with_quotas)| {
        let alone = together(&alone, std::slice::from_ref(tenant))?.iter().sum();
        Ok(TenantHits { alone, shared, with_quotas })
    })
    .collect()
}

/// Runs the requests of all tenants in the order of their arrival. Returns the hits of each tenant.
fn together(shape: &PoolShape, tenants: &[TenantTrace]) -> Result<Vec<u64>, SimError> {
    let mut pool = Pool::new(shape)?;
    let mut hits = vec![0; tenants.len()];
    let arrivals = tenants.iter().enumerate().flat_map(|(place, it)| {
        let numbered = it.trace.arrivals_ms.iter().enumerate();
        numbered.map(move |(number, &at)| (at, place, number))
    });
    let mut arrivals: Vec<(u64, usize, usize)> = arrivals.collect();
    arrivals.sort_unstable();
    for (_, place, number) in arrivals {
        let TenantTrace { tenant, trace } = &tenants[place];
        hits[place] += pool.request_of(tenant, trace, number).hits;
    }
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Workload, generate};

    fn tenant(name: &str, workload: Workload, seed: u64, requests: usize) -> TenantTrace {
        let trace = generate(workload, seed, requests);
        TenantTrace { tenant: Tenant::named(name).expect("a name"), trace }
    }

    /// The noisy tenant sends three times as many requests in the same time, most of them for blocks that never return.
    #[test]
    fn a_noisy_tenant_costs_the_others_no_hits_within_their_quota() {
        let quiet = tenant("quiet", Workload::Chat, 1, 1_500);
        let mut noisy = tenant("noisy", Workload::Scan, 2, 4_500);
        let (slow, fast) = (quiet.trace.last_ms(), noisy.trace.last_ms().max(1));
        for at in &mut noisy.trace.arrivals_ms {
            *at = *at * slow / fast;
        }
        let tenants = [quiet, noisy];
        let blocks = tenants[0].trace.hash_ids.len() as u64 / 2;
        for policy in EvictionPolicy::ALL {
            let shape = PoolShape {
                bytes: 2 * blocks * 4096,
                segments: 2,
                block_bytes: 4096,
                replicas: 1,
                config: mooncake_meta::Config {
                    eviction_policy: policy,
                    ..mooncake_meta::Config::default()
                },
                quotas: Vec::new(),
            };
            let hits = hits(&shape, &tenants).expect("a sound shape");
            let TenantHits { alone, shared, with_quotas } = hits[0];
            println!("{policy:?}: {:?}", hits[0]);
            // Within a quota, chance decides which segments give way, so what goes first is not quite the same.
            assert!(with_quotas * 1000 >= alone * 995, "{policy:?}: {:?}", hits[0]);
            assert!(shared * 100 < alone * 95, "{policy:?}: the noise is none: {:?}", hits[0]);
        }
    }
}
