//! Runs from many seeds: none may find anything wrong. `SEED=n` repeats one of them and prints all that happens, and
//! `KIND` says which (`calm`, `network`, `processes`, `masters`, `leaders`); `SEEDS=first..last` runs others.

use mooncake_sim::{Kind, run};

const EVENTS: u64 = 500;
const RUNS: u64 = 400;

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn seeds() -> (std::ops::Range<u64>, bool) {
    if let Ok(seed) = std::env::var("SEED") {
        return (number(&seed)..number(&seed) + 1, true);
    }
    match std::env::var("SEEDS") {
        Ok(text) => {
            let (first, end) = text.split_once("..").expect("SEEDS=first..end");
            (number(first)..number(end), false)
        }
        Err(_) => (0..RUNS, false),
    }
}

fn run_all(kind: Kind) {
    let (seeds, prints) = seeds();
    let events = std::env::var("EVENTS").map_or(EVENTS, |text| number(&text));
    let (mut right, mut puts, mut hits, mut carried, mut sessions) = (0, 0, 0, 0, 0);
    let mut survived = 0;
    let mut faults = std::collections::BTreeMap::<&str, u64>::new();
    let count = seeds.end - seeds.start;
    let mut failed = 0;
    for seed in seeds {
        let report = run(seed, kind, events, prints);
        if let Some(violation) = report.violation {
            let name = format!("{kind:?}").to_lowercase();
            println!(
                "SEED={seed} KIND={name} repeats this, event {:?}: {violation:?}",
                report.events
            );
            failed += 1;
        }
        let tally = report.tally;
        if prints {
            println!("{:?} {tally:?}", report.events);
        }
        right += tally.right;
        puts += tally.puts;
        hits += tally.hits;
        carried += tally.carried;
        sessions += tally.sessions;
        survived += tally.survived;
        for (name, count) in tally.faults {
            *faults.entry(name).or_default() += count;
        }
    }
    println!(
        "{count} runs: {right} right reads, {hits} known routes, {puts} puts, {sessions} sessions, {carried} carried, \
         {survived} survived a master, {faults:?}"
    );
    assert_eq!(failed, 0, "runs that found something wrong, of {count}");
    let least = if count > 100 { count } else { 0 };
    assert!(right >= least && puts >= least && hits >= least, "too little happened");
}

fn is_wanted(kind: Kind) -> bool {
    std::env::var("KIND").map_or(true, |name| format!("{kind:?}").to_lowercase() == name)
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

#[test]
fn one_seed_is_one_run() {
    for kind in Kind::ALL {
        for seed in 0..10 {
            assert_eq!(
                run(seed, kind, EVENTS, false),
                run(seed, kind, EVENTS, false),
                "{kind:?}, seed {seed}"
            );
        }
    }
}
