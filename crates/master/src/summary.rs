//! The summary in one line: one that is logged every 10 s, and one that `/metrics/summary` serves. Both have the
//! words of the C++ store.

use std::fmt::Write;

use mooncake_meta::Stats;

use crate::leadership::{RoleStatus, Service};
use crate::metrics::{Operation, Snapshot};

/// The logged line: the pool, and then whether this master leads. Only a leader has a snapshot.
pub(crate) fn log_line(status: &RoleStatus, snapshot: Option<&Snapshot>) -> String {
    let role = role(status, snapshot);
    match snapshot {
        Some(snapshot) => {
            let stats = &snapshot.stats;
            let storage = storage(stats.used_bytes, stats.capacity_bytes);
            let disks = match stats.disk_capacity_bytes {
                0 => String::new(),
                _ => format!("{} | ", disks(stats)),
            };
            format!("Master Metrics: Storage: {storage} | {disks}{} | {role}", pool(snapshot))
        }
        None => format!("Master Metrics: {role}"),
    }
}

/// The served line. Only a leader has a snapshot.
pub(crate) fn line(status: &RoleStatus, snapshot: Option<&Snapshot>) -> String {
    let role = role(status, snapshot);
    let Some(snapshot) = snapshot else { return role };
    let stats = &snapshot.stats;
    let storage = storage(stats.used_bytes, stats.capacity_bytes);
    let pool = pool(snapshot);
    format!("{role}, master={{Mem Storage: {storage} | {} | {pool}}}", disks(stats))
}

fn disks(stats: &Stats) -> String {
    format!("SSD Storage: {} / {}", size(stats.disk_used_bytes), size(stats.disk_capacity_bytes))
}

fn role(status: &RoleStatus, snapshot: Option<&Snapshot>) -> String {
    let service = snapshot.map_or(Service::Recovering, |snapshot| snapshot.service);
    let serves = snapshot.is_some() && service == Service::Serving;
    let (role, state) = (status.role.word(), status.role.state(service));
    let mut out = format!("role={role}, state={state}, service_ready={serves}");
    if let Some(leader) = status.leader.as_ref().filter(|_| snapshot.is_none()) {
        // Writing to a string cannot fail.
        let _ = write!(out, ", leader={}, view_version={}", leader.address, leader.epoch.0);
    }
    out
}

fn pool(snapshot: &Snapshot) -> String {
    let stats = &snapshot.stats;
    let mut out = format!(
        "Keys: {} (soft-pinned: {}) | Clients: {}",
        stats.keys, stats.soft_pinned_keys, stats.clients_in_sight
    );
    requests(&mut out, snapshot);
    batches(&mut out, snapshot);
    let wanted = snapshot.wanted();
    let _ = write!(out, " | Hits: {}/{}", wanted.hits, wanted.objects());
    if let Some(ratio) = wanted.hit_ratio() {
        let _ = write!(out, " ({:.1}%)", ratio * 100.0);
    }
    let counters = &stats.counters;
    let _ = write!(
        out,
        " | Eviction: Success/Attempts={}/{}, keys={}, size={} | Discard: Released/Total={}/{}",
        counters.evictions_successful,
        counters.evictions_attempted,
        counters.evicted_keys,
        size(counters.evicted_bytes),
        counters.puts_released,
        counters.puts_discarded
    );
    out
}

fn requests(out: &mut String, snapshot: &Snapshot) {
    const SHOWN: [(&str, Operation); 8] = [
        ("PutStart", Operation::PutStart),
        ("PutEnd", Operation::PutEnd),
        ("PutRevoke", Operation::PutRevoke),
        ("Get", Operation::GetReplicaList),
        ("Exist", Operation::ExistKey),
        ("Del", Operation::Remove),
        ("DelAll", Operation::RemoveAll),
        ("Ping", Operation::Ping),
    ];
    out.push_str(" | Requests (Success/Total): ");
    for (index, (name, operation)) in SHOWN.into_iter().enumerate() {
        let metrics = snapshot.rpc.of(operation);
        let separator = if index == 0 { "" } else { ", " };
        let succeeded = metrics.requests.saturating_sub(metrics.failures);
        // Writing to a string cannot fail.
        let _ = write!(out, "{separator}{name}={succeeded}/{}", metrics.requests);
    }
}

fn batches(out: &mut String, snapshot: &Snapshot) {
    const SHOWN: [(&str, Operation); 6] = [
        ("PutStart", Operation::BatchPutStart),
        ("PutEnd", Operation::BatchPutEnd),
        ("PutRevoke", Operation::BatchPutRevoke),
        ("Get", Operation::BatchGetReplicaList),
        ("ExistKey", Operation::BatchExistKey),
        ("Del", Operation::BatchRemove),
    ];
    out.push_str(" | Batch Requests (Req=Success/PartialSuccess/Total, Item=Success/Total): ");
    for (index, (name, operation)) in SHOWN.into_iter().enumerate() {
        let m = snapshot.rpc.of(operation);
        let separator = if index == 0 { "" } else { ", " };
        let whole = m.requests.saturating_sub(m.failures + m.partial_successes);
        let _ = write!(
            out,
            "{separator}{name}:(Req={whole}/{}/{}, Item={}/{})",
            m.partial_successes,
            m.requests,
            m.items.saturating_sub(m.failed_items),
            m.items
        );
    }
}

fn storage(used: u64, capacity: u64) -> String {
    match capacity {
        0 => format!("{} / {}", size(used), size(capacity)),
        _ => format!(
            "{} / {} ({:.1}%)",
            size(used),
            size(capacity),
            used as f64 / capacity as f64 * 100.0
        ),
    }
}

/// Bytes in the largest unit of which there is at least one, with two decimals. Units are powers of 1024.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")];
    match UNITS.iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{:.2} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mooncake_meta::{Counters, Stats};
    use mooncake_types::{Epoch, ErrorCode, ReadCounts, Reply, Request};

    use super::*;
    use crate::leadership::{Leader, Role};
    use crate::metrics::RpcMetrics;

    #[test]
    fn sizes() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1008 << 10, "1008.00 KB"),
            (883 << 20, "883.00 MB"),
            (100 << 30, "100.00 GB"),
            (3 << 39, "1.50 TB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn the_line_says_what_scrapers_look_for() {
        let counters = Counters {
            evictions_attempted: 2,
            evictions_successful: 1,
            evicted_keys: 3,
            evicted_bytes: 4096,
            puts_discarded: 6,
            puts_released: 5,
            ..Counters::default()
        };
        let stats = Stats {
            counters,
            keys: 7,
            soft_pinned_keys: 1,
            used_bytes: 1 << 30,
            capacity_bytes: 4 << 30,
            clients_in_sight: 2,
            ..Stats::default()
        };
        let mut rpc = RpcMetrics::default();
        let found = Reply::Exist(vec![Ok(true), Err(ErrorCode::InvalidKey)]);
        rpc.record(&Request::exist(vec!["a", ""]), &found, Duration::ZERO);
        rpc.record(&Request::exist(vec!["a"]), &Reply::Exist(vec![Ok(true)]), Duration::ZERO);
        let reads =
            ReadCounts { get_hits: 3, exist_hits: 9, exist_misses: 1, ..ReadCounts::default() };
        let snapshot = Snapshot { reads, ..Snapshot::new(stats, rpc) };
        let leader = Leader { address: "a:1".to_owned(), epoch: Epoch(7) };
        let mut status =
            RoleStatus { role: Role::Leader, leader: Some(leader), ..RoleStatus::default() };
        assert_eq!(
            line(&status, Some(&snapshot)),
            "role=leader, state=serving, service_ready=true, master={\
             Mem Storage: 1.00 GB / 4.00 GB (25.0%) | SSD Storage: 0 B / 0 B | Keys: 7 (soft-pinned: 1) | \
             Clients: 2 | Requests (Success/Total): PutStart=0/0, PutEnd=0/0, PutRevoke=0/0, Get=0/0, \
             Exist=1/1, Del=0/0, DelAll=0/0, Ping=0/0 | \
             Batch Requests (Req=Success/PartialSuccess/Total, Item=Success/Total): \
             PutStart:(Req=0/0/0, Item=0/0), PutEnd:(Req=0/0/0, Item=0/0), PutRevoke:(Req=0/0/0, Item=0/0), \
             Get:(Req=0/0/0, Item=0/0), ExistKey:(Req=0/1/1, Item=1/2), Del:(Req=0/0/0, Item=0/0) | \
             Hits: 3/4 (75.0%) | Eviction: Success/Attempts=1/2, keys=3, size=4.00 KB | Discard: Released/Total=5/6}"
        );
        let logged = log_line(&status, Some(&snapshot));
        let start = "Master Metrics: Storage: 1.00 GB / 4.00 GB (25.0%) | Keys: 7 (soft-pinned: 1) | Clients: 2 | \
                     Requests (Success/Total): ";
        let end = " | Discard: Released/Total=5/6 | role=leader, state=serving, service_ready=true";
        assert!(logged.starts_with(start) && logged.ends_with(end), "{logged}");
        let mut with_disks = snapshot.clone();
        (with_disks.stats.disk_used_bytes, with_disks.stats.disk_capacity_bytes) =
            (1 << 20, 8 << 30);
        for text in [log_line(&status, Some(&with_disks)), line(&status, Some(&with_disks))] {
            assert!(text.contains(" | SSD Storage: 1.00 MB / 8.00 GB | Keys: 7 "), "{text}");
        }
        status.role = Role::Standby;
        assert_eq!(
            line(&status, None),
            "role=standby, state=standby, service_ready=false, leader=a:1, view_version=7"
        );
        let logged = log_line(&status, None);
        assert!(logged.starts_with("Master Metrics: role=standby, state=standby"), "{logged}");
    }
}
