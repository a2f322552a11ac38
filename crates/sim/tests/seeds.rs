//! Runs of many seeds, none of which may find a violation. `SEED=n` repeats one of them and prints every event. `KIND`
//! selects the kind (`calm`, `network`, `processes`, `masters`, `leaders`, `recovery`, `failovers`), and `SEEDS=first..last` other seeds.

use std::collections::BTreeMap;

use mooncake_sim::{Detail, Kind, run};

const EVENTS: u64 = 500;
const RUNS: u64 = 400;

/// For states that appear only after thousands of events.
const LONG_EVENTS: u64 = 20_000;
const LONG_RUNS: std::ops::Range<u64> = 1_000..1_004;

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn seeds(runs: u64) -> (std::ops::Range<u64>, Detail) {
    if let Ok(seed) = std::env::var("SEED") {
        return (number(&seed)..number(&seed) + 1, Detail::Lines);
    }
    match std::env::var("SEEDS") {
        Ok(text) => {
            let (first, end) = text.split_once("..").expect("SEEDS=first..end");
            (number(first)..number(end), Detail::Nothing)
        }
        Err(_) => (0..runs, Detail::Nothing),
    }
}

fn run_all(kind: Kind) {
    let runs = match kind {
        Kind::Recovery => RUNS / 40,
        Kind::Failovers => RUNS / 4,
        _ => RUNS,
    };
    let (seeds, detail) = seeds(runs);
    let events = std::env::var("EVENTS").map_or(EVENTS, |text| number(&text));
    run_seeds(kind, seeds, (events, detail));
}

fn run_seeds(kind: Kind, seeds: std::ops::Range<u64>, (events, detail): (u64, Detail)) {
    let (mut met, mut faults) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    let count = seeds.end - seeds.start;
    let mut failed = 0;
    for seed in seeds {
        let report = run(seed, kind, events, detail);
        if let Some(violation) = report.violation {
            println!(
                "SEED={seed} KIND={} repeats this, event {:?}: {violation:?}",
                kind.name(),
                report.events
            );
            failed += 1;
        }
        let tally = report.tally;
        if detail == Detail::Lines {
            println!("{:?} {:?} {tally:?}", report.events, report.hash);
        }
        for (name, count) in tally.counts() {
            *met.entry(name).or_default() += count;
        }
        for (name, count) in tally.faults {
            *faults.entry(name).or_default() += count;
        }
    }
    println!("{count} runs: {met:?}, {faults:?}");
    assert_eq!(failed, 0, "runs that found something wrong, of {count}");
    let least = if count > 100 { count } else { 0 };
    for name in ["right reads", "puts", "known routes"] {
        assert!(met[name] >= least, "too few {name}: {}", met[name]);
    }
    for name in ["puts part by part", "removals", "drops", "copies and moves"] {
        assert!(least == 0 || met[name] > 0, "no {name}");
    }
    for name in ["one-sided reads", "one-sided writes"] {
        assert!(least == 0 || met.get(name) > Some(&0), "no {name}");
    }
    let has_late_requests = met.get("requests that were shut out") > Some(&0);
    assert!(least == 0 || kind == Kind::Calm || has_late_requests, "no request came too late");
    let has_late_writers = met["refused writes"] > 0;
    assert!(least == 0 || kind == Kind::Calm || has_late_writers, "no writer came late");
    let has_deaths = !matches!(kind, Kind::Calm | Kind::Network);
    let has_losses = faults.contains_key("told of lost bytes");
    assert!(least == 0 || !has_deaths || has_losses, "no master heard of lost bytes");
    let has_filter = met.contains_key("leaders with a filter");
    assert!(least == 0 || kind != Kind::Masters || has_filter, "no record had a filter");
}

fn is_wanted(kind: Kind) -> bool {
    std::env::var("KIND").map_or(true, |name| kind.name() == name)
}

#[test]
fn calm() {
    if is_wanted(Kind::Calm) {
        run_all(Kind::Calm);
    }
}

#[test]
fn network() {
    if is_wanted(Kind::Network) {
        run_all(Kind::Network);
    }
}

#[test]
fn processes() {
    if is_wanted(Kind::Processes) {
        run_all(Kind::Processes);
    }
}

#[test]
fn masters() {
    if is_wanted(Kind::Masters) {
        run_all(Kind::Masters);
    }
}

#[test]
fn leaders() {
    if is_wanted(Kind::Leaders) {
        run_all(Kind::Leaders);
    }
}

/// Its runs are long, so there are fewer.
#[test]
fn recovery() {
    if is_wanted(Kind::Recovery) {
        run_all(Kind::Recovery);
    }
}

/// Its runs are long, too.
#[test]
fn failovers() {
    if is_wanted(Kind::Failovers) {
        run_all(Kind::Failovers);
    }
}

#[test]
fn long_runs() {
    for kind in Kind::ALL.into_iter().filter(|&kind| is_wanted(kind)) {
        run_seeds(kind, LONG_RUNS, (LONG_EVENTS, Detail::Nothing));
    }
}

fn repeat(kind: Kind) {
    for seed in 0..10 {
        let again = || run(seed, kind, EVENTS, Detail::Hash);
        assert_eq!(again(), again(), "{kind:?}, seed {seed}");
    }
}

#[test]
fn one_seed_is_one_run() {
    Kind::ALL.into_iter().filter(|&kind| kind != Kind::Recovery).for_each(repeat);
}

/// Apart from the others, so that both run at a time: it is as long as forty of them.
#[test]
fn one_seed_of_recovery_is_one_run() {
    repeat(Kind::Recovery);
}

/// A run is the same, whatever detail it records.
#[test]
fn a_run_that_is_not_written_down_is_the_same() {
    for kind in Kind::ALL {
        let written = run(3, kind, EVENTS, Detail::Hash);
        let quiet = run(3, kind, EVENTS, Detail::Nothing);
        assert!(written.hash.is_some(), "{kind:?}");
        assert_eq!(mooncake_sim::Report { hash: None, ..written }, quiet, "{kind:?}");
    }
}
