//! The counters as text for Prometheus.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mooncake_http::prometheus::{self, Family};

use super::Metrics;
use super::histogram::Report;
use super::rpc::Rpc;

impl Metrics {
    /// The whole text. Requests that were never made are left out.
    pub(crate) fn text(self: Arc<Self>) -> Result<String, fmt::Error> {
        prometheus::text(move |out| {
            self.transfers(out)?;
            self.requests(out)
        })
    }

    fn transfers(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let counters = [
            ("mooncake_transfer_read_bytes", "Bytes read from nodes", &self.read_bytes),
            ("mooncake_transfer_write_bytes", "Bytes written to nodes", &self.written_bytes),
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

    fn requests(&self, out: &mut prometheus::Metrics<'_, '_>) -> fmt::Result {
        let reports = self.made();
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
    pub(super) fn made(&self) -> Vec<(&'static str, Report)> {
        let reports = Rpc::ALL.iter().map(|(rpc, name)| (*name, self.rpcs[*rpc as usize].report()));
        reports.filter(|(_, report)| report.count() > 0).collect()
    }
}
