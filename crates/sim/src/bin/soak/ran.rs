use std::collections::BTreeMap;

use mooncake_sim::{Kind, Report};
use serde::{Deserialize, Serialize};

/// The outcome of one run, which a worker writes as a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) seed: u64,
    /// The name of its kind.
    pub(crate) kind: String,
    /// How many events there were until the faults ended, and until the run ended.
    pub(crate) events: (u64, u64),
    /// How often each fault occurred.
    pub(crate) faults: BTreeMap<String, u64>,
    /// How often each other counted thing occurred.
    pub(crate) met: BTreeMap<String, u64>,
    pub(crate) finding: Option<Finding>,
}

/// A violation that a run found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finding {
    pub(crate) seed: u64,
    pub(crate) kind: String,
    /// The event at which it was found.
    pub(crate) event: u64,
    /// The rule that was broken.
    pub(crate) rule: String,
    /// The details of the violation.
    pub(crate) text: String,
}

impl RunResult {
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

    /// The run in which a worker process crashed, or was ended because the run took too long.
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
    /// The command that repeats the run.
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
        let finding = RunResult::lost(7, Kind::Leaders, String::new()).finding.expect("it is one");
        let command = "cargo nextest run -p mooncake-sim --no-capture leaders";
        assert_eq!(finding.command(500), format!("SEED=7 KIND=leaders {command}"));
        assert_eq!(finding.command(60), format!("SEED=7 KIND=leaders EVENTS=60 {command}"));
    }
}
