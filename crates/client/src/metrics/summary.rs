//! The counters as a text for people, under the headings that the C++ package uses.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Metrics;

impl Metrics {
    /// The text with the present counts.
    pub(crate) fn summary(&self) -> String {
        self.summary_after(self.since.elapsed())
    }

    fn summary_after(&self, elapsed: Duration) -> String {
        let mut out = String::from("=== Transfer Metrics Summary ===\n");
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let read = self.read_bytes.load(Ordering::Relaxed) as f64;
        let written = self.writes.bytes() as f64;
        let lines = [
            ("Total Read", size(read)),
            ("Total Write", size(written)),
            ("Average Read Throughput", format!("{}/s", size(read / seconds))),
            ("Average Write Throughput", format!("{}/s", size(written / seconds))),
        ];
        list(&mut out, lines);
        out.push_str("\n=== Latency Summary (microseconds) ===\n");
        let latencies = [
            ("Get", &self.get),
            ("Put", &self.put),
            ("Batch Get", &self.batch_get),
            ("Batch Put", &self.batch_put),
        ];
        list(&mut out, latencies.map(|(name, latency)| (name, latency.report().summary())));
        out.push_str("\n=== RPC Metrics Summary ===\n");
        let made = self.recorded_requests();
        if made.is_empty() {
            out.push_str("No RPC calls recorded\n");
        }
        list(&mut out, made.iter().map(|(name, report)| (*name, report.summary())));
        out
    }
}

fn list<'a>(out: &mut String, lines: impl IntoIterator<Item = (&'a str, String)>) {
    for (name, value) in lines {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}: {value}");
    }
}

/// A number of bytes with two decimals, in the largest unit, a power of 1024, of which there is at least one.
fn size(bytes: f64) -> String {
    const UNITS: [(i32, &str); 4] = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")];
    let found = UNITS.iter().find(|(power, _)| bytes >= 2f64.powi(*power));
    let (power, unit) = found.copied().unwrap_or((0, "B"));
    format!("{:.2} {unit}", bytes / 2f64.powi(power))
}

#[cfg(test)]
mod tests {
    use mooncake_transfer::Source;
    use mooncake_types::{Medium, Request};

    use super::*;
    use crate::metrics::{Extent, Fetched};

    #[test]
    fn what_was_counted_is_told() {
        let metrics = Metrics::new(1, Duration::ZERO, None);
        let us = Duration::from_micros;
        let (medium, result) = (Medium::Memory, Ok(Source::Tcp));
        let fetched = |len| [Fetched { position: 0, medium, len, result }];
        metrics.on_read(Extent::One, &fetched(3 << 20), us(60));
        metrics.on_read(Extent::Several, &fetched(1 << 20), us(130));
        let written = [(Source::Fabric, 500), (Source::Own, 12)];
        metrics.on_write(Extent::One, written.into_iter(), us(10));
        metrics.on_call(&Request::exist(vec!["a"]), us(55));
        assert_eq!(
            metrics.summary_after(Duration::from_secs(2)),
            "=== Transfer Metrics Summary ===\nTotal Read: 4.00 MB\nTotal Write: 512.00 B\n\
             Average Read Throughput: 2.00 MB/s\nAverage Write Throughput: 256.00 B/s\n\n\
             === Latency Summary (microseconds) ===\nGet: count=1, p95<75μs, max<75μs\n\
             Put: count=1, p95<50μs, max<50μs\nBatch Get: count=1, p95<150μs, max<150μs\n\
             Batch Put: No data\n\n\
             === RPC Metrics Summary ===\nExistKey: count=1, p95<75μs, max<75μs\n"
        );
    }

    #[test]
    fn a_client_that_did_nothing_says_so() {
        let text = Metrics::new(1, Duration::ZERO, None).summary_after(Duration::ZERO);
        assert!(text.contains("Total Read: 0.00 B\n") && text.contains("Get: No data\n"), "{text}");
        assert!(text.ends_with("No RPC calls recorded\n"), "{text}");
    }

    #[test]
    fn transfers_of_one_object_and_of_several_are_told_apart() {
        let cases = [
            (vec![], Extent::One),
            (vec![3], Extent::One),
            (vec![3, 3], Extent::One),
            (vec![3, 4], Extent::Several),
        ];
        for (positions, expected) in cases {
            assert_eq!(Extent::of(positions.iter().copied()), expected, "{positions:?}");
        }
    }
}
