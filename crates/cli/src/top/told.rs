//! What the leader tells: the same events as its page shows.

use mooncake_http::admin::AdminRequest;
use serde::Deserialize;
use serde_json::Value;

use crate::admin_masters::{ApiError, Masters};

const PATH: &str = "/api/v1/live?turns=1";

/// The pool at one moment, and the numbers of the last hour.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) now: Now,
    pub(super) segments: Vec<Segment>,
    /// What the numbers of a sample are.
    fields: Vec<String>,
    /// The samples of the last hour, and then that of now.
    pub(super) samples: Vec<Vec<u64>>,
}

/// The event `now`.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Now {
    pub(super) cluster: String,
    pub(super) role: String,
    pub(super) state: String,
    pub(super) leader: Option<String>,
    pub(super) epoch: Option<u64>,
    #[serde(default)]
    pub(super) leads_ms: u64,
    #[serde(default)]
    pub(super) clients: u64,
    #[serde(default)]
    sample: Vec<u64>,
    #[serde(default)]
    used: Vec<u64>,
    #[serde(default)]
    pub(super) problems: Vec<Problem>,
    #[serde(default)]
    pub(super) drains: Vec<Drain>,
    #[serde(default)]
    pub(super) tasks: Vec<Task>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    pub(super) text: String,
    pub(super) remedy: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Drain {
    pub(super) segments: Vec<String>,
    pub(super) status_name: String,
    pub(super) migrated_bytes: u64,
    pub(super) remaining_bytes: u64,
}

impl Drain {
    pub(super) fn runs(&self) -> bool {
        !matches!(&*self.status_name, "SUCCEEDED" | "FAILED" | "CANCELED")
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) under_way: u64,
}

/// A segment, with what is used of it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) medium: String,
    pub(super) domains: Vec<String>,
    pub(super) state: String,
    pub(super) in_sight: bool,
    pub(super) reachable: bool,
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) used: u64,
}

impl Segment {
    /// The part of it that is in use.
    pub(super) fn fill(&self) -> f64 {
        self.used as f64 / self.bytes.max(1) as f64
    }

    /// Its state in words.
    pub(super) fn state(&self) -> String {
        match (self.in_sight, self.reachable) {
            (false, _) => "out of sight".to_owned(),
            (true, false) => "not reached".to_owned(),
            (true, true) => self.state.to_lowercase().replace('_', " "),
        }
    }
}

#[derive(Deserialize)]
struct Segments {
    segments: Vec<Segment>,
}

#[derive(Deserialize)]
struct Samples {
    fields: Vec<String>,
    samples: Vec<Vec<u64>>,
}

impl Told {
    /// Asks the master that leads.
    pub(super) fn ask(masters: &mut Masters) -> Result<Self, ApiError> {
        let asked = AdminRequest { method: "GET", path: PATH, ..AdminRequest::default() };
        let mut standby = None;
        let text = masters.find(&asked, |text| match Self::read(text) {
            Ok(told) if told.now.role == "leader" && !told.samples.is_empty() => Ok(Some(told)),
            Ok(told) => {
                standby = told.now.leader.or(standby.take());
                Ok(None)
            }
            Err(reason) => Err(ApiError::Strange(reason)),
        });
        match (text?, standby) {
            (Some(told), _) => Ok(told),
            (None, Some(leader)) => Err(ApiError::Absent(format!(
                "the master that leads serves clients at {leader}: name its admin server, too"
            ))),
            (None, None) => Err(ApiError::Absent("no master leads".to_owned())),
        }
    }

    fn read(stream: &str) -> Result<Self, String> {
        let mut told = Self::default();
        for event in stream.split_terminator("\n\n") {
            let mut lines = event.lines();
            let name = lines.next().and_then(|line| line.strip_prefix("event: "));
            let data = lines.next().and_then(|line| line.strip_prefix("data: "));
            let (Some(name), Some(data)) = (name, data) else {
                return Err("the master answered what is no stream of events".to_owned());
            };
            told.take(name, data).map_err(|error| format!("the event {name}: {error}"))?;
        }
        for (segment, used) in told.segments.iter_mut().zip(&told.now.used) {
            segment.used = *used;
        }
        let now = std::mem::take(&mut told.now.sample);
        told.samples.extend(Some(now).filter(|sample| !sample.is_empty()));
        Ok(told)
    }

    fn take(&mut self, name: &str, data: &str) -> serde_json::Result<()> {
        match name {
            "samples" => {
                let Samples { fields, samples } = serde_json::from_str(data)?;
                (self.fields, self.samples) = (fields, samples);
            }
            "segments" => self.segments = serde_json::from_str::<Segments>(data)?.segments,
            "now" => self.now = serde_json::from_str(data)?,
            // Names of keys, and what later masters tell.
            _ => drop(serde_json::from_str::<Value>(data)?),
        }
        Ok(())
    }

    /// A number of a sample; zero if the master does not tell it.
    pub(super) fn value(&self, sample: &[u64], field: &str) -> u64 {
        let place = self.fields.iter().position(|known| known == field);
        place.and_then(|place| sample.get(place)).copied().unwrap_or_default()
    }

    /// A number of the last sample.
    pub(super) fn latest(&self, field: &str) -> u64 {
        self.samples.last().map_or(0, |sample| self.value(sample, field))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A pool that grew by these numbers in ten seconds.
    pub(in crate::top) fn grown(fields: &[(&str, u64)]) -> Told {
        let names: Vec<&str> =
            ["at_ms", "epoch"].into_iter().chain(fields.iter().map(|(name, _)| *name)).collect();
        let sample = |at_ms: u64, times: u64| -> Vec<u64> {
            [at_ms, 7]
                .into_iter()
                .chain(fields.iter().map(|(_, value)| 5 + value * times))
                .collect()
        };
        let (samples, now) = (sample(1_000, 0), sample(11_000, 1));
        let stream = format!(
            "event: samples\ndata: {{\"fields\":{names:?},\"samples\":[{samples:?}],\"restart\":true}}\n\n\
             event: segments\ndata: {{\"high_watermark\":0.9,\"segments\":[\
             {{\"name\":\"n\",\"medium\":\"disk\",\"domains\":[\"rack=1\"],\"state\":\"DRAINING\",\"in_sight\":true,\
             \"reachable\":true,\"bytes\":100}}]}}\n\n\
             event: unknown\ndata: {{}}\n\n\
             event: now\ndata: {{\"cluster\":\"c\",\"role\":\"leader\",\"state\":\"serving\",\"leader\":\"m:1\",\
             \"epoch\":7,\"leads_ms\":61000,\"clients\":3,\"sample\":{now:?},\"used\":[40]}}\n\n"
        );
        Told::read(&stream).expect("events")
    }

    #[test]
    fn the_events_of_a_leader_are_read() {
        let told = grown(&[("keys", 2)]);
        assert_eq!((&*told.now.cluster, told.now.epoch, told.now.clients), ("c", Some(7), 3));
        assert_eq!((told.latest("keys"), told.latest("absent")), (7, 0));
        assert_eq!(told.samples.len(), 2);
        let [segment] = &told.segments[..] else { panic!("{:?}", told.segments) };
        assert_eq!((segment.used, segment.fill(), &*segment.state()), (40, 0.4, "draining"));
    }

    #[test]
    fn what_is_no_stream_is_refused() {
        for text in
            ["ok", "event: now\n\n", "event: now\ndata: {}\n\n", "event: other\ndata: x\n\n"]
        {
            assert!(Told::read(text).is_err(), "{text}");
        }
        let standby = "event: now\ndata: {\"cluster\":\"c\",\"role\":\"standby\",\"state\":\"standby\",\"leader\":\"m:1\",\
                       \"epoch\":7}\n\n";
        let told = Told::read(standby).expect("an event");
        assert_eq!((told.now.leader.as_deref(), told.samples.len()), (Some("m:1"), 0));
    }
}
