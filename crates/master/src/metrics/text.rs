//! The text that a Prometheus server reads, format 0.0.4.
//!
//! Names are those that dashboards of the C++ store know, to the letter. The encoder speaks OpenMetrics, which
//! would add `_total` to every counter's name and end with a mark of its own; values are therefore written as
//! plain samples under their full names, with the type said in the descriptor.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::operation::Operation;
use super::snapshot::Snapshot;

impl Snapshot {
    /// The whole text.
    pub(crate) fn text(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::with_capacity(64 << 10);
        encode_registry(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(&mut encoder);
        self.gauges(&mut out)?;
        self.segments(&mut out)?;
        self.counters(&mut out)?;
        self.operations(&mut out)?;
        self.histograms(&mut encoder)
    }
}

impl Snapshot {
    fn gauges(&self, out: &mut Out<'_, '_>) -> fmt::Result {
        let stats = &self.stats;
        out.gauge("master_allocated_bytes", "Bytes reserved in all segments", stats.used_bytes)?;
        out.gauge("master_total_capacity_bytes", "Bytes of all segments", stats.capacity_bytes)?;
        out.gauge("master_allocated_file_size_bytes", "Bytes of objects on disk", 0)?;
        out.gauge("master_total_file_capacity_bytes", "Bytes of disk lent", 0)?;
        out.gauge("master_key_count", "Objects", stats.keys as u64)?;
        out.gauge(
            "master_soft_pin_key_count",
            "Objects whose soft pin is in force",
            stats.soft_pinned_keys as u64,
        )?;
        out.gauge(
            "master_put_start_discarded_staging_size",
            "Bytes of discarded puts whose memory is not free yet",
            stats.discarded_bytes,
        )?;
        out.gauge("master_active_clients", "Living clients", stats.clients as u64)?;
        out.gauge("master_segment_count", "Mounted segments", stats.segments as u64)?;
        out.gauge("mem_cache_nums_", "Objects in memory", stats.keys as u64)?;
        out.gauge("file_cache_nums_", "Objects on disk", 0)
    }

    fn segments(&self, out: &mut Out<'_, '_>) -> fmt::Result {
        let samples = |pick: fn(&(u64, u64)) -> u64| {
            self.segments.iter().map(move |(name, bytes)| (name.as_ref(), pick(bytes)))
        };
        out.labelled(
            Family {
                name: "segment_allocated_bytes",
                help: "Bytes reserved in the segments of this name",
                kind: MetricType::Gauge,
                label: "segment",
            },
            samples(|(used, _)| *used),
        )?;
        out.labelled(
            Family {
                name: "segment_total_capacity_bytes",
                help: "Bytes of the segments of this name",
                kind: MetricType::Gauge,
                label: "segment",
            },
            samples(|(_, capacity)| *capacity),
        )
    }

    fn counters(&self, out: &mut Out<'_, '_>) -> fmt::Result {
        let c = &self.stats.counters;
        let counters = [
            ("total_get_nums_", "Keys looked up by reads", c.lookups),
            ("mem_cache_hit_nums_", "Keys found in memory", c.lookup_hits),
            ("mem_cache_hit_bytes_total", "Bytes of objects found in memory", c.lookup_hit_bytes),
            ("file_cache_hit_nums_", "Keys found on disk", 0),
            ("file_cache_hit_bytes_total", "Bytes of objects found on disk", 0),
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
            (
                "master_scan_removed_key_count",
                "Objects removed by regex or all at once",
                self.rpc.scan_removed,
            ),
        ];
        counters.into_iter().try_for_each(|(name, help, value)| out.counter(name, help, value))
    }

    fn operations(&self, out: &mut Out<'_, '_>) -> fmt::Result {
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

    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let sizes = &self.rpc.value_size;
        encoder
            .encode_descriptor(
                "master_value_size_bytes",
                "Sizes of the objects that room was granted for",
                None,
                MetricType::Histogram,
            )?
            .encode_histogram::<NoLabelSet>(sizes.sum(), sizes.count(), &sizes.buckets(), None)?;
        let mut family = encoder.encode_descriptor(
            "master_operation_latency_seconds",
            "Time in the state machine, by operation",
            None,
            MetricType::Histogram,
        )?;
        for (operation, name) in Operation::ALL {
            let latency = &self.rpc.of(operation).latency;
            family.encode_family(&[("operation", name)])?.encode_histogram::<NoLabelSet>(
                latency.sum(),
                latency.count(),
                &latency.buckets(),
                None,
            )?;
        }
        Ok(())
    }
}

/// A metric with one label.
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    label: &'static str,
}

/// Writes samples under exactly the names given.
struct Out<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Out<'_, '_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        // As a gauge: a counter's sample would get another `_total`.
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_gauge(&value)
    }

    fn labelled<'s>(
        &mut self,
        family: Family,
        samples: impl Iterator<Item = (&'s str, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(family.name, family.help, None, family.kind)?;
        for (value_of_label, value) in samples {
            encoder.encode_family(&[(family.label, value_of_label)])?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
