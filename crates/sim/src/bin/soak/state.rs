//! The progress and findings of a soak, which a later call may continue.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::ran::{Finding, RunResult};

/// Most findings that are kept. All of them are counted.
const MOST_FINDINGS: usize = 200;

/// The parameters of a soak. A call continues a state only with equal parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) first: u64,
    pub(crate) events: u64,
    pub(crate) kinds: Vec<String>,
}

/// The results of all seeds from `plan.first` up to `next`, exclusive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoakState {
    pub(crate) plan: Plan,
    /// The first seed without results.
    pub(crate) next: u64,
    /// The run time so far, in seconds.
    pub(crate) seconds: f64,
    pub(crate) runs: u64,
    /// Events up to the end of faults, summed over all runs.
    pub(crate) events: u64,
    /// Events up to the end of runs, summed over all runs.
    pub(crate) all_events: u64,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) met: BTreeMap<String, u64>,
    /// Runs that found something, by the rule that was broken.
    pub(crate) found: BTreeMap<String, u64>,
    pub(crate) findings: Vec<Finding>,
}

impl SoakState {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            next: plan.first,
            plan,
            seconds: 0.0,
            runs: 0,
            events: 0,
            all_events: 0,
            faults: BTreeMap::new(),
            met: BTreeMap::new(),
            found: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// Reads the state that an earlier call saved. Without a file, nothing is done yet.
    ///
    /// # Errors
    /// The text names the file, and says why this call cannot continue it.
    pub(crate) fn open(path: &Path, plan: Plan) -> Result<Self, String> {
        let name = path.display();
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::new(plan)),
            Err(error) => return Err(format!("{name}: {error}")),
        };
        let state: Self = serde_json::from_str(&text)
            .map_err(|error| format!("{name} is no state of a soak: {error}"))?;
        if state.plan != plan {
            return Err(format!("{name} is of another soak: {}, now {plan}", state.plan));
        }
        match state.next < plan.first {
            true => Err(format!("{name} is no state of a soak: its next seed is before its first")),
            false => Ok(state),
        }
    }

    /// Replaces the file atomically.
    ///
    /// # Errors
    /// The text names the file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        let mut next = path.as_os_str().to_owned();
        next.push(".next");
        let write = || {
            let mut file = fs::File::create(&next)?;
            serde_json::to_writer_pretty(&mut file, self)?;
            file.write_all(b"\n")?;
            file.sync_all()?;
            fs::rename(&next, path)
        };
        write().map_err(|error: io::Error| format!("{}: {error}", path.display()))
    }

    /// Adds all runs of the next seed.
    pub(crate) fn add(&mut self, runs: Vec<RunResult>) {
        for ran in runs {
            self.runs += 1;
            self.events += ran.events.0;
            self.all_events += ran.events.1;
            sum_up(&mut self.faults, ran.faults);
            sum_up(&mut self.met, ran.met);
            if let Some(finding) = ran.finding {
                *self.found.entry(finding.rule.clone()).or_default() += 1;
                if self.findings.len() < MOST_FINDINGS {
                    self.findings.push(finding);
                }
            }
        }
        self.next += 1;
    }

    /// How many runs found a violation.
    pub(crate) fn found(&self) -> u64 {
        self.found.values().sum()
    }
}

fn sum_up(sums: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>) {
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, events, kinds } = self;
        write!(f, "--first {first} --events {events} --kinds {}", kinds.join(","))
    }
}
