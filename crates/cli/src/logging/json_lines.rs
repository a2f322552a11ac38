use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes each log message as a JSON object on a line: `timestamp`, `level`, `target`, `message`, and its fields beside
/// them. There are no spans here.
pub(super) struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut line) = fields;
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        // After the fields: no field takes the place of these.
        line.insert("timestamp".to_owned(), timestamp.into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The fields of a message, of which one is its text.
struct Fields(Map<String, Value>);

impl Fields {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    /// What was written.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_message_is_an_object_on_a_line_with_its_fields() {
        let written = Written::default();
        let to = written.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || to.clone());
        let subscriber = subscriber.event_format(JsonLines).finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = io::Error::other("no \"room\"");
            tracing::warn!(%error, count = 3_u64, is_late = true, share = 0.5, path = ?"a\nb", "it {}", "failed");
            tracing::info!(target: "elsewhere", level = "mine", below = -1);
        });
        let text = String::from_utf8(written.0.lock().expect("no panic").clone()).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let parsed = |line: &str| {
            let mut object: Map<String, Value> = serde_json::from_str(line).expect("JSON");
            let time = object.remove("timestamp").expect("a time");
            assert!(
                time.as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
            );
            Value::Object(object)
        };
        let expected = [
            json!({
                "level": "WARN", "target": module_path!(), "message": "it failed", "error": "no \"room\"", "count": 3,
                "is_late": true, "share": 0.5, "path": "\"a\\nb\"",
            }),
            json!({"level": "INFO", "target": "elsewhere", "below": -1}),
        ];
        assert_eq!(lines.iter().map(|line| parsed(line)).collect::<Vec<_>>(), expected);
    }
}
