//! Metrics as text in the Prometheus format, version 0.0.4.
//!
//! Metrics keep exactly the names given, since dashboards use them. The encoder writes OpenMetrics, which would add
//! `_total` to the names of counters. So all values are written as plain samples, and only the descriptor names the
//! type.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// The `Content-Type` of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The initial capacity of the text, in bytes.
const TEXT_BYTES: usize = 64 << 10;

/// The text of all metrics that `write` writes.
///
/// # Errors
/// The errors of `write`.
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

/// A metric whose samples differ in one label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family<'a> {
    /// The full name.
    pub name: &'a str,
    /// One line that describes the metric.
    pub help: &'a str,
    /// The name of the label.
    pub label: &'a str,
}

/// A distribution: how many values lie between which bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The sum of all values.
    pub sum: f64,
    /// The number of all values.
    pub count: u64,
    /// Each upper bound with the count of values between the next lower bound and it. The last bound is infinity.
    pub buckets: Vec<(f64, u64)>,
}

/// Writes metrics under exactly the given names. Each name may be written once.
#[derive(Debug)]
pub struct Metrics<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Metrics<'_, '_> {
    /// Writes a value that rises and falls.
    ///
    /// # Errors
    /// The errors of the text's writer.
    pub fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes a share between 0 and 1.
    ///
    /// # Errors
    /// The errors of the text's writer.
    pub fn ratio(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    /// Writes a value that only rises.
    ///
    /// # Errors
    /// The errors of the text's writer.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        // Encoded as a gauge, since the encoder would add `_total` to the name of a counter.
        self.0.encode_descriptor(name, help, None, MetricType::Counter)?.encode_gauge(&value)
    }

    /// Writes a gauge for each value of the label.
    ///
    /// # Errors
    /// The errors of the text's writer.
    pub fn gauges<'s>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (&'s str, u64)>,
    ) -> fmt::Result {
        self.samples(family, MetricType::Gauge, samples)
    }

    /// Writes a counter for each value of the label.
    ///
    /// # Errors
    /// The errors of the text's writer.
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

    /// Writes a distribution.
    ///
    /// # Errors
    /// The errors of the text's writer.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let Histogram { sum, count, buckets } = histogram;
        self.0
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
    }

    /// Writes a distribution for each value of the label.
    ///
    /// # Errors
    /// The errors of the text's writer.
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
