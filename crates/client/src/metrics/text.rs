//! The metrics as text for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mooncake_http::process_metrics;
use mooncake_http::prometheus::{self, Family};
use mooncake_transfer::Source;
use mooncake_types::Medium;
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};

use super::Metrics;
use super::histogram::HistogramSnapshot;
use super::rpc::Rpc;

impl Metrics {
    /// The whole text. Kinds of requests that were never made are left out.
    pub(crate) fn text(self: Arc<Self>) -> Result<String, fmt::Error> {
        prometheus::text(move |out| {
            process_metrics::write(SOFTWARE_VERSION, PROTOCOL_VERSION, out)?;
            self.transfers(out)?;
            self.reads(out)?;
            self.writes(out)?;
            self.calls(out)?;
            self.hot_cache_counts(out)?;
            self.served(out)?;
            self.nics(out)?;
            self.disks(out)?;
            self.requests(out)
        })
    }

    fn transfers(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let counters = [
            ("mooncake_transfer_read_bytes", "Bytes read from nodes", &self.read_bytes),
            (
                "mooncake_client_route_cache_hits",
                "Objects got by a known route, without asking the master",
                &self.route_hits,
            ),
            (
                "mooncake_client_route_cache_misses",
                "Objects got without a known route",
                &self.route_misses,
            ),
            (
                "mooncake_client_route_cache_stale",
                "Known routes that no longer led to their objects",
                &self.route_stale,
            ),
        ];
        for (name, help, value) in counters {
            out.counter(name, help, value.load(Ordering::Relaxed))?;
        }
        let (name, help) = ("mooncake_transfer_write_bytes", "Bytes written to nodes");
        out.counter(name, help, self.writes.bytes())?;
        let histograms = [
            ("mooncake_transfer_get_latency", "Reading one object in us", &self.get),
            (
                "mooncake_transfer_batch_get_latency",
                "Reading several objects in us",
                &self.batch_get,
            ),
            ("mooncake_transfer_put_latency", "Writing one object in us", &self.put),
            (
                "mooncake_transfer_batch_put_latency",
                "Writing several objects in us",
                &self.batch_put,
            ),
        ];
        for (name, help, histogram) in histograms {
            out.histogram(name, help, &histogram.report().written())?;
        }
        Ok(())
    }

    fn reads(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let counts = self.reads.counts();
        let counters = [
            ("mooncake_client_get_hits", "Objects that were got", counts.get_hits),
            (
                "mooncake_client_get_misses",
                "Objects that were to be got and were not there",
                counts.get_misses,
            ),
            (
                "mooncake_client_exist_hits",
                "Existence checks that found their objects",
                counts.exist_hits,
            ),
            (
                "mooncake_client_exist_misses",
                "Existence checks that found nothing",
                counts.exist_misses,
            ),
        ];
        for (name, help, value) in counters {
            out.counter(name, help, value)?;
        }
        let sources = [
            (Source::Own, counts.own),
            (Source::Host, counts.host),
            (Source::Fabric, counts.fabric),
            (Source::Tcp, counts.tcp),
        ];
        let objects = Family {
            name: "mooncake_client_read_objects",
            help: "Objects that were read, by where from",
            label: "source",
        };
        out.counters(objects, sources.map(|(source, read)| (source.name(), read.objects)))?;
        let bytes = Family {
            name: "mooncake_client_read_bytes",
            help: "Bytes that were read, by where from",
            label: "source",
        };
        out.counters(bytes, sources.map(|(source, read)| (source.name(), read.bytes)))?;
        let tiers = counts.tiers();
        let objects = Family {
            name: "mooncake_client_tier_objects",
            help: "Objects that were read, by the tier that they lay in",
            label: "tier",
        };
        out.counters(objects, tiers.map(|(medium, read)| (medium.tier(), read.objects)))?;
        let bytes = Family {
            name: "mooncake_client_tier_bytes",
            help: "Bytes that were read, by the tier that they lay in",
            label: "tier",
        };
        out.counters(bytes, tiers.map(|(medium, read)| (medium.tier(), read.bytes)))?;
        let took = Family {
            name: "mooncake_client_tier_latency",
            help: "Reading one object or several in us, by the farthest tier that one of them lay in",
            label: "tier",
        };
        let of_tier = |medium: Medium| {
            (medium.tier(), self.tier_latencies[medium as usize].report().written())
        };
        out.histograms(took, Medium::ALL.map(of_tier))
    }

    fn writes(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let volumes = self.writes.volumes();
        let ranges = Family {
            name: "mooncake_client_written_ranges",
            help: "Ranges that were written, counted for each replica, by where to",
            label: "target",
        };
        out.counters(ranges, volumes.map(|(source, written)| (source.name(), written.objects)))?;
        let bytes = Family {
            name: "mooncake_client_written_bytes",
            help: "Bytes of these",
            label: "target",
        };
        out.counters(bytes, volumes.map(|(source, written)| (source.name(), written.bytes)))
    }

    fn calls(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let stages = Family {
            name: "mooncake_client_call_stage_us",
            help: "What calls of the application waited for, in us",
            label: "stage",
        };
        let us = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        out.counters(stages, self.calls.stages().map(|(stage, took)| (stage.name(), us(took))))?;
        let counters = [
            ("mooncake_client_slow_calls", "Calls of the application that were slow", &self.calls),
            (
                "mooncake_node_slow_requests",
                "Requests of peers that were slow to be served",
                &self.served_calls,
            ),
        ];
        counters
            .into_iter()
            .try_for_each(|(name, help, calls)| out.counter(name, help, calls.slow_calls()))
    }

    fn hot_cache_counts(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let counts = self.hot_cache();
        let counters = [
            ("mooncake_client_hot_cache_hits", "Ranges copied out of the hot cache", counts.hits),
            (
                "mooncake_client_hot_cache_misses",
                "Ranges of other hosts that the hot cache did not have",
                counts.misses,
            ),
            (
                "mooncake_client_hot_cache_hit_bytes",
                "Bytes copied out of the hot cache",
                counts.hit_bytes,
            ),
            (
                "mooncake_client_hot_cache_questions",
                "Hits of which the node was asked whether it still holds the version",
                counts.asked,
            ),
            (
                "mooncake_client_hot_cache_admissions",
                "Ranges that this process put into the hot cache",
                counts.admitted,
            ),
            (
                "mooncake_client_hot_cache_refusals",
                "Ranges that were read less often than what the hot cache has",
                counts.refused,
            ),
            (
                "mooncake_client_hot_cache_skips",
                "Ranges that were not kept because others were waiting to be",
                counts.skipped,
            ),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| out.counter(name, help, value))
    }

    fn served(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let ways = self.served.ways();
        let ranges = Family {
            name: "mooncake_node_served_ranges",
            help: "Ranges of this process's segments that others were sent, or were let see, by the way",
            label: "way",
        };
        out.counters(ranges, ways.map(|way| (way.name, way.ranges)))?;
        let bytes =
            Family { name: "mooncake_node_served_bytes", help: "Bytes of these", label: "way" };
        out.counters(bytes, ways.map(|way| (way.name, way.bytes)))?;
        let ways = self.served.received();
        let ranges = Family {
            name: "mooncake_node_received_ranges",
            help: "Ranges that others wrote to this process's segments, by the way",
            label: "way",
        };
        out.counters(ranges, ways.map(|way| (way.name, way.ranges)))?;
        let bytes =
            Family { name: "mooncake_node_received_bytes", help: "Bytes of these", label: "way" };
        out.counters(bytes, ways.map(|way| (way.name, way.bytes)))?;
        let (name, help) = (
            "mooncake_node_refused_ranges",
            "Ranges that others asked for and that the master had not given to them",
        );
        out.counter(name, help, self.served.unsealed())
    }

    fn disks(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let (losses, failed) = self.disk_counts();
        let lost = Family {
            name: "mooncake_node_disk_lost_objects",
            help: "Objects that disks of this process lost, by the cause",
            label: "cause",
        };
        let causes = [("unreadable", losses.unreadable), ("no_room", losses.no_room)];
        out.counters(lost, causes)?;
        out.counter(
            "mooncake_node_disk_failed_reads",
            "Reads that disks of this process failed",
            losses.failed_reads,
        )?;
        let disks = Family {
            name: "mooncake_node_failed_disks",
            help: "Disks of this process that failed and are lent no more, by the reason",
            label: "reason",
        };
        let mut reasons = BTreeMap::new();
        failed.iter().for_each(|disk| *reasons.entry(&*disk.reason).or_insert(0) += 1);
        out.gauges(disks, reasons)
    }

    fn requests(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let reports = self.recorded_requests();
        let count = Family {
            name: "mooncake_client_rpc_count",
            help: "Requests to the master, by kind",
            label: "rpc_name",
        };
        out.counters(count, reports.iter().map(|(name, report)| (*name, report.count())))?;
        let latency = Family {
            name: "mooncake_client_rpc_latency",
            help: "Requests to the master in us, by kind",
            label: "rpc_name",
        };
        out.histograms(latency, reports.iter().map(|(name, report)| (*name, report.written())))
    }

    /// The kinds of requests that were made, by name.
    pub(super) fn recorded_requests(&self) -> Vec<(&'static str, HistogramSnapshot)> {
        let reports = Rpc::ALL.iter().map(|(rpc, name)| (*name, self.rpcs[*rpc as usize].report()));
        reports.filter(|(_, report)| report.count() > 0).collect()
    }
}
