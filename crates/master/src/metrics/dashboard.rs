//! Metrics under the names that the C++ master's dashboard asks for, where this master counts the same under another
//! name, or in other parts. What cannot happen here is zero.

use std::fmt;

use mooncake_http::prometheus::Metrics;
use mooncake_meta::TaskCounts;

use super::snapshot::Snapshot;

/// Name, help and value.
type Counter = (&'static str, &'static str, u64);

const NO_ADDRESSES: &str =
    "Always 0: clients learn the addresses of nodes with the places of objects";
const NOT_APART: &str = "Always 0: such copies count as failed";
const NOT_KEPT: &str = "Always 0: a client that is given up is forgotten at once";
const NOT_REFUSED: &str = "Always 0: a copy to memory makes room as a put does";

/// Writes them all.
pub(super) fn write(snapshot: &Snapshot, out: &mut Metrics<'_, '_>) -> fmt::Result {
    let under_way = snapshot.stats.promotions_under_way as u64;
    out.gauge("master_promotion_in_flight", "Copies from disks to memory under way", under_way)?;
    let c = &snapshot.stats.counters;
    let tasks = copies(&c.copies).into_iter().chain(moves(&c.moves));
    let counters = evictions(snapshot).into_iter().chain(tasks).chain(offloads(snapshot));
    let counters = counters.chain(promotions(snapshot)).chain(requests(snapshot));
    let counters = counters.chain(liveness(snapshot, out)?);
    for (name, help, value) in counters {
        out.counter(name, help, value)?;
    }
    Ok(())
}

fn evictions(snapshot: &Snapshot) -> [Counter; 5] {
    let c = &snapshot.stats.counters;
    let memory = &c.evictions_in_memory;
    [
        ("master_attempted_evictions_mem", "Evictions from memory tried", memory.attempted),
        (
            "master_successful_evictions_mem",
            "Evictions from memory that freed something",
            memory.successful,
        ),
        (
            "master_evicted_key_count_mem",
            "Objects evicted whose last replica lay in memory",
            memory.keys,
        ),
        ("master_evicted_size_bytes_mem", "Bytes evicted from memory", memory.bytes),
        (
            "master_evict_disk_replica_requests_total",
            "Replicas evicted from disks",
            c.disk_replicas_evicted,
        ),
    ]
}

fn copies(c: &TaskCounts) -> [Counter; 5] {
    [
        ("master_copy_start_requests_total", "Times that a copy was to begin", begun(c)),
        ("master_copy_start_failures_total", "Times that it could not", c.not_begun),
        ("master_copy_end_requests_total", "Copies that ended after they had begun", ended(c)),
        ("master_copy_end_failures_total", "Of these, copies that failed", c.failed),
        ("master_copy_revoke_requests_total", "The same", c.failed),
    ]
}

fn moves(c: &TaskCounts) -> [Counter; 5] {
    [
        ("master_move_start_requests_total", "Times that a move was to begin", begun(c)),
        ("master_move_start_failures_total", "Times that it could not", c.not_begun),
        ("master_move_end_requests_total", "Moves that ended after they had begun", ended(c)),
        ("master_move_end_failures_total", "Of these, moves that failed", c.failed),
        ("master_move_revoke_requests_total", "The same", c.failed),
    ]
}

fn begun(c: &TaskCounts) -> u64 {
    c.begun + c.not_begun
}

fn ended(c: &TaskCounts) -> u64 {
    c.made + c.failed
}

fn offloads(snapshot: &Snapshot) -> [Counter; 5] {
    let (stats, c) = (&snapshot.stats, &snapshot.stats.counters);
    let ordered = c.offloads.made + c.offloads.failed + stats.offloads_under_way as u64;
    [
        ("master_offload_enqueued_total", "Copies to disks ordered", ordered),
        ("master_offload_completed_total", "Copies made on disks", c.offloads.made),
        ("master_offload_failed_total", "Copies to disks that failed", c.offloads.failed),
        ("master_offload_cancelled_total", NOT_APART, 0),
        (
            "master_offload_enqueue_rejected_total",
            "Objects that were put and not copied to disks: too many copies were under way",
            c.offloads_refused,
        ),
    ]
}

/// Writes how many clients are in which state, and gives the counts of changes.
fn liveness(snapshot: &Snapshot, out: &mut Metrics<'_, '_>) -> Result<[Counter; 5], fmt::Error> {
    let (stats, c) = (&snapshot.stats, &snapshot.stats.counters);
    let gauges = [
        ("active_clients", "Clients in sight", stats.clients_in_sight),
        ("suspected_clients", "Clients out of sight", stats.clients_out_of_sight),
        ("offline_clients", NOT_KEPT, 0),
    ];
    for (name, help, value) in gauges {
        out.gauge(&format!("master_client_liveness_{name}"), help, value as u64)?;
    }
    out.gauge("master_client_offboarding_queue_depth", NOT_KEPT, 0)?;
    Ok([
        (
            "master_client_liveness_suspected_transitions_total",
            "Times that a client went out of sight",
            c.clients_suspected,
        ),
        (
            "master_client_liveness_recoveries_total",
            "Times that a client came back into sight",
            c.clients_recovered,
        ),
        (
            "master_client_liveness_offline_transitions_total",
            "Clients that were given up because they were silent for too long",
            c.clients_given_up,
        ),
        ("master_client_offboarding_retries_total", NOT_KEPT, 0),
        ("master_client_offboarding_alerts_total", NOT_KEPT, 0),
    ])
}

fn promotions(snapshot: &Snapshot) -> [Counter; 9] {
    let (stats, c) = (&snapshot.stats, &snapshot.stats.counters);
    let admitted = c.promotions.made + c.promotions.failed + stats.promotions_under_way as u64;
    [
        ("master_promotion_admitted_total", "Copies from disks to memory ordered", admitted),
        ("master_promotion_completed_total", "Copies made in memory", c.promotions.made),
        ("master_promotion_completed_bytes_total", "Bytes of these", c.promotions.bytes),
        ("master_promotion_failed_total", "Copies to memory that failed", c.promotions.failed),
        ("master_promotion_cancelled_total", NOT_APART, 0),
        ("master_promotion_expired_total", NOT_APART, 0),
        (
            "master_promotion_rejected_cap_total",
            "Times that a read was to begin such a copy and did not",
            c.promotions_refused,
        ),
        ("master_promotion_rejected_frequency_total", NOT_REFUSED, 0),
        ("master_promotion_rejected_watermark_total", NOT_REFUSED, 0),
    ]
}

fn requests(snapshot: &Snapshot) -> [Counter; 6] {
    [
        (
            "master_put_start_object_already_exists_total",
            "Requests to put one object that were refused because its key is taken",
            snapshot.rpc.taken,
        ),
        (
            "master_batch_put_start_object_already_exists_total",
            "Objects of batches that were refused because their keys are taken",
            snapshot.rpc.taken_in_batches,
        ),
        ("valid_get_nums_", "Objects that clients got", snapshot.reads.get_hits),
        (
            "master_remount_segment_requests_total",
            "Mounts of segments that a leader before this one, or an earlier process, had mounted",
            snapshot.rpc.remounts,
        ),
        ("master_batch_query_ip_requests_total", NO_ADDRESSES, 0),
        ("master_batch_query_ip_items_total", NO_ADDRESSES, 0),
    ]
}
