use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Parser;
use mooncake_sim::Kind;
use mooncake_types::mutation::Rule;

use crate::span::Span;
use crate::state::Plan;

/// Runs many simulated clusters with faults, and reports every violation. The exit status is 0 without violations, 1
/// with violations, and 2 if the soak could not run.
#[derive(Clone, Debug, Parser)]
#[command(name = "soak")]
pub(crate) struct Flags {
    /// How many seeds to run, each once for each kind. With --state, the seeds of earlier calls count too.
    #[arg(long, default_value = "10000")]
    seeds: NonZeroU64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many events each run has before its faults end.
    #[arg(long, default_value = "500")]
    events: NonZeroU64,
    /// Kinds of runs, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_parser = kind)]
    kinds: Vec<Kind>,
    /// How many runs are in progress at a time [default: one for each processor].
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Save progress and findings to this file every few seconds. If the file exists, continue from it.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Break this rule in all runs, to check that the soak detects it; `?` lists the rules.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) broken: Option<Rule>,
    /// Run these seeds as a worker process.
    #[arg(long, hide = true)]
    pub(crate) worker: Option<Span>,
}

impl Flags {
    pub(crate) fn plan(&self) -> Plan {
        let kinds = self.kinds().into_iter().map(|kind| kind.name().to_owned()).collect();
        Plan { first: self.first, events: self.events(), kinds }
    }

    pub(crate) fn kinds(&self) -> Vec<Kind> {
        match self.kinds.is_empty() {
            true => Kind::ALL.to_vec(),
            false => self.kinds.clone(),
        }
    }

    pub(crate) fn events(&self) -> u64 {
        self.events.get()
    }

    /// One past the last seed.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.seeds.get())
    }

    pub(crate) fn threads(&self) -> usize {
        let given = self.threads.or_else(|| std::thread::available_parallelism().ok());
        given.map_or(1, NonZeroUsize::get)
    }
}

fn kind(name: &str) -> Result<Kind, String> {
    Kind::named(name).ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("the kinds are {names}")
    })
}

fn rule(name: &str) -> Result<Rule, String> {
    if !cfg!(debug_assertions) {
        return Err("this build breaks no rules: it has no debug assertions".to_owned());
    }
    let found = Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == name);
    found.ok_or_else(|| format!("the rules are {:?}", Rule::ALL))
}
