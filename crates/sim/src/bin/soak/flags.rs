use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

use clap::Parser;
use mooncake_sim::Kind;
use mooncake_types::mutation::Rule;

use crate::span::Span;
use crate::state::Plan;

/// Runs many simulated clusters whose parts fail, and says what was wrong in any. Ends with 0 if nothing was, with 1 if
/// something was, and with 2 if it could not be run.
#[derive(Clone, Debug, Parser)]
#[command(name = "soak")]
pub(crate) struct Flags {
    /// How many seeds; each is run once for each kind. Together with --state: those of earlier calls included.
    #[arg(long, default_value = "10000")]
    seeds: NonZeroU64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many events each run has before its faults end.
    #[arg(long, default_value = "500")]
    events: NonZeroU64,
    /// Which kinds of runs there are of each seed, with commas between them; all, if not given.
    #[arg(long, value_delimiter = ',', value_parser = kind)]
    kinds: Vec<Kind>,
    /// How many run at a time; as many as there are processors, if not given.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Keeps in this file what was done and found, every few seconds. If it is there already, this goes on where that ended.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Break this rule in all runs, to see that it is found; `?` lists them.
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub(crate) broken: Option<Rule>,
    /// Be a process that runs these seeds.
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

    /// Behind the last seed.
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
