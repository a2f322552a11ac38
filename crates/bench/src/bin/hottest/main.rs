//! Runs one of the hottest operations a given number of times, so that its instructions can be counted.
//!
//! `bench/instructions.py` (`make bench-check`) runs this under valgrind with two counts of rounds. The difference is
//! the cost of the operation without its preparation. By hand:
//!
//! ```sh
//! cargo build --release -p mooncake-bench --bin hottest
//! target/release/hottest --list            # name, items of one round, what an item is
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/hottest exist_1000 20
//! ```
//!
//! Nothing is random here, and no clock is read, so two runs of one build hardly differ.

#![forbid(unsafe_code)]

mod calls;
mod client;
mod frames;
mod keys;
mod master;
mod memory;

use std::process::ExitCode;

/// Most rounds of one run. Operations prepare keys for this many rounds, whatever the count.
const MAX_ROUNDS: usize = 64;

/// An operation to measure.
struct Operation {
    name: &'static str,
    /// The description of one item, for the printed table.
    what: &'static str,
    /// How many items one round processes.
    items: usize,
    /// Prepares the operation, and runs this many rounds.
    run: fn(usize),
}

fn operations() -> Vec<Operation> {
    let all = [
        master::OPERATIONS,
        frames::OPERATIONS,
        client::OPERATIONS,
        calls::OPERATIONS,
        memory::OPERATIONS,
    ];
    all.into_iter()
        .flatten()
        .map(|&(name, what, items, run)| Operation { name, what, items, run })
        .collect()
}

/// An operation as a row: name, description, items of a round, and the function that runs it.
type Row = (&'static str, &'static str, usize, fn(usize));

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => {
            for Operation { name, what, items, .. } in operations() {
                println!("{name}\t{items}\t{what}");
            }
            ExitCode::SUCCESS
        }
        [name, rounds] => run(name, rounds),
        _ => complain("usage: hottest --list | hottest OPERATION ROUNDS"),
    }
}

fn run(name: &str, rounds: &str) -> ExitCode {
    let Some(operation) = operations().into_iter().find(|operation| operation.name == name) else {
        return complain(&format!("there is no operation {name:?}; --list names them"));
    };
    match rounds.parse() {
        Ok(rounds @ 1..=MAX_ROUNDS) => {
            (operation.run)(rounds);
            ExitCode::SUCCESS
        }
        _ => complain(&format!("the rounds are a number from 1 to {MAX_ROUNDS}")),
    }
}

fn complain(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_operation_runs() {
        for Operation { name, run, .. } in operations() {
            println!("{name}");
            run(2);
        }
    }

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = operations().iter().map(|operation| operation.name).collect();
        assert_eq!(names.len(), operations().len());
    }
}
