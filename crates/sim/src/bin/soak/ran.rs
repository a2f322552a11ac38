use std::collections::BTreeMap;

use mooncake_sim::{Kind, Report};
use serde::{Deserialize, Serialize};

/// What one run came to: a line that a worker writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ran {
    pub(crate) seed: u64,
    /// The name of its kind.
    pub(crate) kind: String,
    /// Events until the faults ended, and until the end of the run.
    pub(crate) events: (u64, u64),
    /// How often each fault was met.
    pub(crate) faults: BTreeMap<String, u64>,
    /// How often everything else was.
    pub(crate) met: BTreeMap<String, u64>,
    pub(crate) finding: Option<Finding>,
}

/// Something that was wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finding {
    pub(crate) seed: u64,
    pub(crate) kind: String,
    /// The event at which it was seen.
    pub(crate) event: u64,
    /// The rule that was broken.
    pub(crate) rule: String,
    /// What happened.
    pub(crate) text: String,
}

impl Ran {
    pub(crate) fn new(seed: u64, kind: Kind, report: Report) -> Self {
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let finding = report.violation.map(|violation| Finding {
            seed,
            kind: kind.name().to_owned(),
            event: report.events.1,
            rule: violation.rule.to_owned(),
            text: violation.text,
        });
        Self {
            seed,
            kind: kind.name().to_owned(),
            events: report.events,
            met: report.tally.counts().into_iter().map(named).collect(),
            faults: report.tally.faults.into_iter().map(named).collect(),
            finding,
        }
    }

    /// A run that ended its process, or was ended with it.
    pub(crate) fn lost(seed: u64, kind: Kind, text: String) -> Self {
        let kind = kind.name().to_owned();
        let rule = "a run ends, and its process goes on".to_owned();
        let finding = Finding { seed, kind: kind.clone(), event: 0, rule, text };
        Self {
            seed,
            kind,
            events: (0, 0),
            faults: BTreeMap::new(),
            met: BTreeMap::new(),
            finding: Some(finding),
        }
    }
}

impl Finding {
    /// What to say to see it again.
    pub(crate) fn command(&self, events: u64) -> String {
        let Self { seed, kind, .. } = self;
        let events = match events {
            500 => String::new(),
            events => format!("EVENTS={events} "),
        };
        format!(
            "SEED={seed} KIND={kind} {events}cargo nextest run -p mooncake-sim --no-capture {kind}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_how_it_is_repeated() {
        let finding = Ran::lost(7, Kind::Leaders, String::new()).finding.expect("it is one");
        let command = "cargo nextest run -p mooncake-sim --no-capture leaders";
        assert_eq!(finding.command(500), format!("SEED=7 KIND=leaders {command}"));
        assert_eq!(finding.command(60), format!("SEED=7 KIND=leaders EVENTS=60 {command}"));
    }
}
