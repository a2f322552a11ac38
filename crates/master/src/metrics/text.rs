//! The metrics as text, under the names that dashboards of the C++ store know.

use std::fmt;

use mooncake_http::process_metrics;
use mooncake_http::prometheus::{self, Family, Metrics};
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};

use super::dashboard;
use super::operation::Operation;
use super::snapshot::Snapshot;
use super::tenants;
use crate::following::Followed;
use crate::leadership::{Role, RoleStatus, Service};

/// The whole text. Only a leader has a snapshot.
pub(crate) fn text(
    (status, followed): (RoleStatus, Followed),
    snapshot: Option<Snapshot>,
) -> Result<String, fmt::Error> {
    prometheus::text(move |out| {
        process_metrics::write(SOFTWARE_VERSION, PROTOCOL_VERSION, out)?;
        leadership(&status, out)?;
        following(followed, out)?;
        let Some(snapshot) = &snapshot else { return Ok(()) };
        snapshot.gauges(out)?;
        snapshot.segments(out)?;
        tenants::write(snapshot, out)?;
        snapshot.reads(out)?;
        snapshot.counters(out)?;
        dashboard::write(snapshot, out)?;
        snapshot.operations(out)?;
        snapshot.histograms(out)
    })
}

fn leadership(status: &RoleStatus, out: &mut Metrics<'_, '_>) -> fmt::Result {
    let leads = status.role == Role::Leader;
    out.gauge("master_is_leader", "1 if this master leads, 0 if it stands by", leads.into())?;
    let epoch = status.leader.as_ref().map_or(0, |leader| leader.epoch.0);
    out.gauge(
        "master_leader_epoch",
        "The epoch under which the leader that is known began",
        epoch,
    )?;
    out.counter("ha_state_transitions_total", "Changes of this master's role", status.changes)
}

fn following(followed: Followed, out: &mut Metrics<'_, '_>) -> fmt::Result {
    let Followed { known, entries, is_warm, .. } = followed;
    out.gauge(
        "master_standby_is_warm",
        "1 if this master stands by and knows what the nodes hold",
        is_warm.into(),
    )?;
    out.gauge(
        "master_followed_segments",
        "Segments of which this master, which stands by, knows what they hold",
        known as u64,
    )?;
    out.gauge("master_followed_entries", "Entries that it knows of them", entries as u64)
}

impl Snapshot {
    fn gauges(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let stats = &self.stats;
        out.gauge(
            "master_allocated_bytes",
            "Bytes reserved in all memory in sight",
            stats.used_bytes,
        )?;
        out.gauge(
            "master_total_capacity_bytes",
            "Bytes of all memory in sight",
            stats.capacity_bytes,
        )?;
        out.gauge(
            "master_allocated_file_size_bytes",
            "Bytes reserved on all disks in sight",
            stats.disk_used_bytes,
        )?;
        out.gauge(
            "master_total_file_capacity_bytes",
            "Bytes of all disks in sight",
            stats.disk_capacity_bytes,
        )?;
        out.gauge("master_key_count", "Objects", stats.keys as u64)?;
        out.gauge(
            "master_soft_pin_key_count",
            "Objects whose soft pin is in force",
            stats.soft_pinned_keys as u64,
        )?;
        out.gauge(
            "master_put_start_discarded_staging_size",
            "Bytes of discarded puts whose memory is not free yet",
            stats.reserved_bytes,
        )?;
        out.gauge(
            "master_active_clients",
            "Clients whose last ping came over a connection that is still open",
            stats.clients_in_sight as u64,
        )?;
        out.gauge("master_segment_count", "Mounted segments", stats.segments as u64)?;
        out.gauge(
            "master_segments_out_of_sight",
            "Mounted segments whose nodes are not heard of: nothing there can be read until they are",
            stats.segments_out_of_sight as u64,
        )?;
        self.recovery(out)?;
        out.gauge("master_drain_jobs", "Drain jobs that run", stats.drains as u64)?;
        self.replicas(out)?;
        out.gauge("mem_cache_nums_", "Objects in memory", stats.keys as u64)?;
        out.gauge("file_cache_nums_", "Objects on disk", stats.disk_objects)?;
        self.tiers(out)
    }

    fn tiers(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let (stats, c) = (&self.stats, &self.stats.counters);
        out.gauge(
            "master_offloads_running",
            "Copies to disks that are under way or wait for their nodes",
            stats.offloads_under_way as u64,
        )?;
        out.gauge(
            "master_promotions_running",
            "Copies of objects that lie on disks alone to memory, likewise",
            stats.promotions_under_way as u64,
        )?;
        let counters = [
            ("master_offloaded_objects_total", "Copies made on disks", c.offloads.made),
            ("master_offloaded_bytes_total", "Bytes of these", c.offloads.bytes),
            ("master_offload_failures_total", "Copies to disks that failed", c.offloads.failed),
            (
                "master_offloads_refused_total",
                "Objects that were put and not copied to disks: too many copies were under way",
                c.offloads_refused,
            ),
            (
                "master_evictions_deferred_total",
                "Objects that eviction chose and that went to disks first",
                c.evictions_deferred,
            ),
            (
                "master_evictions_forced_total",
                "Objects that eviction took without a copy: as many were on their way as may be",
                c.evictions_forced,
            ),
            (
                "master_puts_delayed_total",
                "Times that a put was told to wait for room that was being made",
                c.puts_delayed,
            ),
            ("master_promoted_objects_total", "Copies made in memory", c.promotions.made),
            ("master_promoted_bytes_total", "Bytes of these", c.promotions.bytes),
            (
                "master_promotion_failures_total",
                "Copies to memory that failed",
                c.promotions.failed,
            ),
            (
                "master_promotions_refused_total",
                "Times that a read was to begin such a copy and did not",
                c.promotions_refused,
            ),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| out.counter(name, help, value))
    }

    fn recovery(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let stats = &self.stats;
        out.gauge(
            "master_serves",
            "1 if puts and removals are taken, 0 while a new leader hears from the nodes, or a leader waits for the \
             coordinator",
            (self.service == Service::Serving).into(),
        )?;
        out.gauge(
            "master_membership_record_late_seconds",
            "How long what is to be in the membership record has not been written; 0 if all of it is",
            self.record_late.as_secs(),
        )?;
        out.gauge(
            "master_segments_recovering",
            "Mounted segments whose nodes are telling what they hold",
            stats.segments_recovering as u64,
        )?;
        out.gauge(
            "master_members_missing",
            "Recorded segments that have not told what they hold",
            stats.members_missing as u64,
        )?;
        out.gauge(
            "master_tombstones",
            "Entries that went from the pool and that nodes may still hold",
            stats.tombstones as u64,
        )
    }

    fn replicas(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let stats = &self.stats;
        out.gauge(
            "master_objects_lacking_replicas",
            "Objects with fewer replicas than their puts asked for",
            stats.short_objects as u64,
        )?;
        out.gauge(
            "master_repairs_running",
            "Copies under way in the place of lost replicas",
            stats.repairs_under_way as u64,
        )?;
        out.gauge(
            "master_dynamic_replica_objects",
            "Objects with replicas made because they were read often",
            stats.extra_replica_objects as u64,
        )?;
        out.gauge(
            "master_dynamic_replications_running",
            "Copies under way of objects that are read often",
            stats.replications_under_way as u64,
        )?;
        let c = &stats.counters;
        let counters = [
            (
                "master_repaired_replicas_total",
                "Replicas made in the place of lost ones",
                c.repairs.made,
            ),
            ("master_repaired_bytes_total", "Bytes of these", c.repairs.bytes),
            ("master_repair_failures_total", "Copies to that end that failed", c.repairs.failed),
            (
                "master_hot_objects_total",
                "Times that an object was found to be read often",
                c.hot_objects,
            ),
            ("master_dynamic_replicas_total", "Replicas made because of that", c.replications.made),
            ("master_dynamic_replica_bytes_total", "Bytes of these", c.replications.bytes),
            (
                "master_dynamic_replicas_evicted_total",
                "Of these, replicas that were evicted",
                c.extra_replicas_evicted,
            ),
            (
                "master_dynamic_replication_failures_total",
                "Copies to that end that failed",
                c.replications.failed,
            ),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| out.counter(name, help, value))
    }

    fn segments(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let samples = |pick: fn(&(u64, u64)) -> u64| {
            self.segments.iter().map(move |(name, bytes)| (name.as_ref(), pick(bytes)))
        };
        let used = Family {
            name: "segment_allocated_bytes",
            help: "Bytes reserved in the segments of this name",
            label: "segment",
        };
        out.gauges(used, samples(|(used, _)| *used))?;
        let capacity = Family {
            name: "segment_total_capacity_bytes",
            help: "Bytes of the segments of this name",
            label: "segment",
        };
        out.gauges(capacity, samples(|(_, capacity)| *capacity))
    }

    /// The reads that clients reported.
    fn reads(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let reads = &self.reads;
        let gets = reads.get_hits.saturating_add(reads.get_misses);
        let sources = [
            ("own_process", reads.own),
            ("same_host", reads.host),
            ("fabric", reads.fabric),
            ("tcp", reads.tcp),
        ];
        let bytes = sources.iter().fold(0_u64, |sum, (_, it)| sum.saturating_add(it.bytes));
        let counters = [
            ("total_get_nums_", "Objects that clients were to get", gets),
            ("mem_cache_hit_nums_", "Of these, objects that were there", reads.get_hits),
            ("mem_cache_hit_bytes_total", "Bytes that clients read", bytes),
            (
                "master_exist_hits_total",
                "Existence checks of clients that found their objects",
                reads.exist_hits,
            ),
            (
                "master_exist_misses_total",
                "Existence checks of clients that found nothing",
                reads.exist_misses,
            ),
        ];
        for (name, help, value) in counters {
            out.counter(name, help, value)?;
        }
        if let Some(ratio) = self.wanted().hit_ratio() {
            out.ratio(
                "master_hit_ratio",
                "Objects that were there, of all that clients were to get or did not find",
                ratio,
            )?;
        }
        let objects = Family {
            name: "master_read_objects_total",
            help: "Objects that clients read, by where from",
            label: "source",
        };
        out.counters(objects, sources.map(|(source, read)| (source, read.objects)))?;
        let bytes = Family {
            name: "master_read_bytes_total",
            help: "Bytes that clients read, by where from",
            label: "source",
        };
        out.counters(bytes, sources.map(|(source, read)| (source, read.bytes)))?;
        let tiers = reads.tiers();
        let objects = Family {
            name: "master_tier_objects_total",
            help: "Objects that clients read, by the tier that they lay in",
            label: "tier",
        };
        out.counters(objects, tiers.map(|(medium, read)| (medium.tier(), read.objects)))?;
        let bytes = Family {
            name: "master_tier_bytes_total",
            help: "Bytes that clients read, by the tier that they lay in",
            label: "tier",
        };
        out.counters(bytes, tiers.map(|(medium, read)| (medium.tier(), read.bytes)))
    }

    fn counters(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        let c = &self.stats.counters;
        let counters = [
            (
                "master_lookup_keys_total",
                "Keys that clients asked about in order to read them, or to renew their routes",
                c.lookups,
            ),
            (
                "file_cache_hit_nums_",
                "Objects that clients read from disks",
                self.reads.disk.objects,
            ),
            (
                "file_cache_hit_bytes_total",
                "Bytes that clients read from disks",
                self.reads.disk.bytes,
            ),
            ("master_attempted_evictions_total", "Evictions tried", c.evictions_attempted),
            (
                "master_successful_evictions_total",
                "Evictions that freed something",
                c.evictions_successful,
            ),
            ("master_evicted_key_count", "Objects evicted", c.evicted_keys),
            ("master_evicted_size_bytes", "Bytes evicted", c.evicted_bytes),
            ("master_put_start_discard_cnt", "Puts discarded by timeout", c.puts_discarded),
            (
                "master_put_start_release_cnt",
                "Discarded puts whose memory is free again",
                c.puts_released,
            ),
            (
                "master_put_start_alloc_failures_total",
                "Puts refused for lack of room",
                c.allocation_failures,
            ),
            (
                "master_put_start_partial_allocations_total",
                "Puts with fewer replicas than they asked for",
                c.partial_allocations,
            ),
            (
                "master_lost_key_count",
                "Objects lost with the last segment that held them",
                c.lost_keys,
            ),
            ("master_drain_moved_total", "Replicas that drains moved", c.drain_moved),
            ("master_drain_moved_bytes_total", "Bytes that drains moved", c.drain_moved_bytes),
            (
                "master_drain_released_total",
                "Replicas that drains dropped, since another stays and no target had room",
                c.drain_released,
            ),
            (
                "master_drain_failures_total",
                "Times that a drain could not move a replica",
                c.drain_failures,
            ),
            (
                "master_scan_removed_key_count",
                "Objects removed by regex or all at once",
                self.rpc.scan_removed,
            ),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| out.counter(name, help, value))
    }

    fn operations(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        for (operation, name) in Operation::ALL {
            let metrics = self.rpc.of(operation);
            let mut counters = vec![
                ("requests", "Requests", metrics.requests),
                ("failures", "Requests without one success", metrics.failures),
            ];
            if operation.is_batch() {
                counters.extend([
                    ("items", "Keys", metrics.items),
                    ("failed_items", "Keys that failed", metrics.failed_items),
                    (
                        "partial_successes",
                        "Requests of which some keys failed",
                        metrics.partial_successes,
                    ),
                ]);
            }
            for (what, help, value) in counters {
                out.counter(
                    &format!("master_{name}_{what}_total"),
                    &format!("{help}: {name}"),
                    value,
                )?;
            }
        }
        Ok(())
    }

    fn histograms(&self, out: &mut Metrics<'_, '_>) -> fmt::Result {
        out.histogram(
            "master_value_size_bytes",
            "Sizes of the objects that room was granted for",
            &self.rpc.value_size.report(),
        )?;
        let latency = Family {
            name: "master_operation_latency_seconds",
            help: "Time in the state machine, by operation",
            label: "operation",
        };
        let samples = Operation::ALL
            .iter()
            .map(|(operation, name)| (*name, self.rpc.of(*operation).latency.report()));
        out.histograms(latency, samples)
    }
}
