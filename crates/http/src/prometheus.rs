//! The text that a Prometheus server reads, format 0.0.4.
//!
//! Names are written to the letter: dashboards know them. The encoder below speaks OpenMetrics, which would add
//! `_total` to every counter's name and end with a mark of its own; values are therefore written as plain samples
//! under their full names, with the type said in the descriptor.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What the header `Content-Type` says of such a text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// First size of the text in bytes; it grows as it must.
const TEXT_BYTES: usize = 64 << 10;

/// The text of the metrics that `write` writes.
///
/// # Errors
/// Those of `write`.
pub fn text(
    write: impl Fn(&mut Metrics<'_, '_>) -> fmt::Result + Send + Sync + 'static,
) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Writer(write)));
    let mut text = String::with_capacity(TEXT_BYTES);
    encode_registry(&mut text, &registry)?;
    Ok(text)
}

struct Writer<W>(W);

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl<W> Collector for Writer<W>
where
    W: Fn(&mut Metrics<'_, '_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Metrics(&mut encoder))
    }
}

/// What a metric is called, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family<'a> {
    /// Its full name.
    pub name: &'a str,
    /// One line about it.
    pub help: &'a str,
    /// The one label that tells its samples apart.
    pub label: &'a str,
}

/// Counts of values by upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The sum of all values.
    pub sum: f64,
    /// The number of all values.
    pub count: u64,
    /// Each bound with the count of the values between it and the one below; infinity last.
    pub buckets: Vec<(f64, u64)>,
}

/// Writes metrics, each under exactly the name given. A name is written once only.
#[derive(Debug)]
pub struct Metrics<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Metrics<'_, '_> {
    /// A value that rises and falls.
    ///
    /// # Errors
    /// The writer's.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A share, from 0 to 1.
    ///
    /// # Errors
    /// The writer's.
    pub fn ratio(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// A value that only rises.
    ///
    /// # Errors
    /// The writer's.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        // As a gauge: a counter's sample would get another `_total`.
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_gauge(&value)
    }

    /// Gauges by the value of their label.
    ///
    /// # Errors
    /// The writer's.
    pub fn gauges<'s>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (&'s str, u64)>,
    ) -> fmt::Result {
        self.samples(family, MetricType::Gauge, samples)
    }

    /// Counters by the value of their label.
    ///
    /// # Errors
    /// The writer's.
    pub fn counters<'s>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (&'s str, u64)>,
    ) -> fmt::Result {
        self.samples(family, MetricType::Counter, samples)
    }

    fn samples<'s>(
        &mut self,
        family: Family<'_>,
        kind: MetricType,
        samples: impl IntoIterator<Item = (&'s str, u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(family.name, family.help, None, kind)?;
        for (label, value) in samples {
            encoder.encode_family(&[(family.label, label)])?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// The distribution of values.
    ///
    /// # Errors
    /// The writer's.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let Histogram { sum, count, buckets } = histogram;
        self.0
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
    }

    /// Distributions by the value of their label.
    ///
    /// # Errors
    /// The writer's.
    pub fn histograms<'s>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (&'s str, Histogram)>,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut encoder = self.0.encode_descriptor(family.name, family.help, None, kind)?;
        for (label, Histogram { sum, count, buckets }) in samples {
            encoder
                .encode_family(&[(family.label, label)])?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_to_the_letter() {
        let histogram =
            || Histogram { sum: 7.5, count: 3, buckets: vec![(1.0, 2), (f64::INFINITY, 1)] };
        let family = |name| Family { name, help: "by a label", label: "of" };
        let written = text(move |out| {
            out.gauge("level", "how high", 3)?;
            out.counter("events_total", "how often", 4)?;
            out.gauges(family("levels"), [("a", 1), ("say \"b\"", 2)])?;
            out.counters(family("events"), [("a", 5)])?;
            out.histogram("spread", "how wide", &histogram())?;
            out.histograms(family("spreads"), [("a", histogram())])
        });
        let expected = "\
            # HELP level how high\n# TYPE level gauge\nlevel 3\n\
            # HELP events_total how often\n# TYPE events_total counter\nevents_total 4\n\
            # HELP levels by a label\n# TYPE levels gauge\nlevels{of=\"a\"} 1\nlevels{of=\"say \\\"b\\\"\"} 2\n\
            # HELP events by a label\n# TYPE events counter\nevents{of=\"a\"} 5\n\
            # HELP spread how wide\n# TYPE spread histogram\n\
            spread_sum 7.5\nspread_count 3\nspread_bucket{le=\"1.0\"} 2\nspread_bucket{le=\"+Inf\"} 3\n\
            # HELP spreads by a label\n# TYPE spreads histogram\n\
            spreads_sum{of=\"a\"} 7.5\nspreads_count{of=\"a\"} 3\n\
            spreads_bucket{le=\"1.0\",of=\"a\"} 2\nspreads_bucket{le=\"+Inf\",of=\"a\"} 3\n";
        assert_eq!(written.as_deref(), Ok(expected));
    }

    #[test]
    fn an_error_of_the_writer_is_an_error() {
        assert_eq!(text(|_| Err(fmt::Error)), Err(fmt::Error));
    }
}
