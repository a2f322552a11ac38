//! Processes that are killed at a random moment.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use super::folders::Scratch;
use super::{Dice, bytes, get, name, put};
use crate::{PutError, RecordStore};

const KILLS: u64 = 12;
/// Environment variables that tell the killed process which folder to use, and its first record number.
const FOLDER: &str = "MOONCAKE_TEST_KILLED_FOLDER";
const FIRST: &str = "MOONCAKE_TEST_KILLED_FIRST";

fn len(number: u64) -> u64 {
    1 + number * 7_919 % 60_000
}

/// Puts and drops records until it is killed. Prints every acknowledgement.
#[test]
#[ignore = "it is run by the test below, which kills it"]
fn works_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let first: u64 = env::var(FIRST).expect("a number").parse().expect("a number");
    let disk = Scratch::at(folder.into()).open(|_| {});
    let mut dice = Dice(first + 1);
    let mut out = std::io::stdout();
    // The test runner has printed something on the same line.
    writeln!(out).expect("somebody listens");
    for number in first.. {
        match put(&disk, name(number), len(number)) {
            Ok(()) => writeln!(out, "put {number}").expect("somebody listens"),
            Err(PutError::Full) => {
                writeln!(out, "making room").expect("somebody listens");
                for gone in disk.make_room(1 << 20).expect("the disk works") {
                    writeln!(out, "evicted {}", gone.grant.counter).expect("somebody listens");
                }
                writeln!(out, "made room").expect("somebody listens");
            }
            Err(error) => panic!("{error}"),
        }
        let other = first + dice.below(number - first + 1);
        if dice.happens(3) && disk.contains(name(other)) {
            writeln!(out, "dropping {other}").expect("somebody listens");
            disk.drop_records(&[name(other)]).expect("the disk works");
            writeln!(out, "dropped {other}").expect("somebody listens");
        }
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_loses_nothing_and_brings_nothing_back() {
    let scratch = Scratch::new("kills");
    let mut dice = Dice(std::process::id().into());
    let (mut there, mut dropped, mut puts) = (BTreeSet::new(), BTreeSet::new(), 0);
    for round in 0..KILLS {
        let mut child = Command::new(env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "--nocapture", "tests::kills::works_until_it_is_killed"])
            .env(FOLDER, scratch.path())
            .env(FIRST, (1 + round * 1_000_000).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let heard = thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
        thread::sleep(Duration::from_millis(50 + dice.below(250)));
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        // The record of the last call, whose outcome is unknown.
        let (mut is_unsaid, mut perhaps) = (false, None);
        for line in heard.join().expect("it ends with the process") {
            let Some((what, number)) = line.split_once(' ') else { continue };
            if number == "room" {
                is_unsaid = what == "making";
            }
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "dropping" => perhaps = Some(number),
                "put" => puts += u64::from(there.insert(number)),
                "dropped" => assert!(there.remove(&number) && dropped.insert(number)),
                "evicted" => {
                    assert!(there.remove(&number), "{number} was evicted, and was not there");
                }
                _ => {}
            }
        }
        let mut told = BTreeSet::new();
        let disk = scratch.open(|record| {
            told.insert(record.name.grant.counter);
        });
        assert_eq!(told.intersection(&dropped).next(), None, "it was dropped");
        let lost: Vec<_> = there.difference(&told).copied().collect();
        let is_known = |&number: &u64| !is_unsaid && perhaps != Some(number);
        assert!(!lost.iter().any(is_known), "lost, and neither dropped nor evicted: {lost:?}");
        for &number in &told {
            let read = get(&disk, name(number), 0, len(number)).expect("it is there");
            assert!(read == bytes(name(number), len(number)), "{number}");
        }
        there = told;
    }
    assert!(puts > KILLS, "{puts}");
    fs::metadata(scratch.path()).expect("the folder is there to the end");
}
