//! A node that is killed at any moment of its disk's work.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use mooncake_transfer::SegmentHost;
use mooncake_types::{Chance, SegmentId};

use super::folders::{Scratch, lent, wish};
use super::{Piece, check, pieces, put, version};

const KILLS: u64 = 10;
const SEGMENT: SegmentId = SegmentId(1);
/// The folder of the process to be killed, and the first number that it puts.
const FOLDER: &str = "MOONCAKE_TEST_KILLED_FOLDER";
const FIRST: &str = "MOONCAKE_TEST_KILLED_FIRST";
/// The number of ranges on the disk that objects are put in.
const SLOTS: u64 = 30;
const SLOT_BYTES: u64 = 80_000;

fn piece(number: u64) -> Piece {
    let len = 1 + number * 7_919 % SLOT_BYTES;
    Piece::whole(number % SLOTS * SLOT_BYTES, version(number), len)
}

/// Puts and drops objects until it is killed. Prints a line before and after each call.
#[test]
#[ignore = "it is run by the test below, which kills it"]
fn works_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let first: u64 = env::var(FIRST).expect("a number").parse().expect("a number");
    let host = lent(folder.as_ref(), wish(1));
    let mut chance = Chance::new(first);
    let mut out = std::io::stdout();
    // Ends the line that the test runner has begun.
    writeln!(out).expect("somebody listens");
    for number in first.. {
        writeln!(out, "putting {number}").expect("somebody listens");
        put(&host, SEGMENT, &piece(number)).expect("it is newer than all that lies there");
        writeln!(out, "put {number}").expect("somebody listens");
        if chance.below(3) == 0 {
            let other = number - chance.below(SLOTS).min(number - first);
            writeln!(out, "dropping {other}").expect("somebody listens");
            let drop = piece(other).drop_by(SEGMENT, version(number));
            host.drop_range(&drop).expect("the disk works");
            writeln!(out, "dropped {other}").expect("somebody listens");
        }
    }
}

/// The state of the disk, as the lines of the killed processes tell it.
#[derive(Default)]
struct Said {
    /// The number of the object in each slot.
    there: BTreeMap<u64, u64>,
    gone: BTreeSet<u64>,
    perhaps: BTreeSet<u64>,
    puts: u64,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let Some((what, number)) = line.split_once(' ') else { return };
        let Ok(number) = number.parse::<u64>() else { return };
        let slot = number % SLOTS;
        match what {
            "putting" => {
                self.perhaps.insert(number);
                self.perhaps.extend(self.there.remove(&slot));
            }
            "put" => {
                self.settle();
                self.gone.remove(&number);
                self.there.insert(slot, number);
                self.puts += 1;
            }
            "dropping" if self.there.get(&slot) == Some(&number) => {
                self.perhaps.extend(self.there.remove(&slot));
            }
            "dropped" => self.settle(),
            _ => {}
        }
    }

    /// The last call has ended, so the objects that it dropped or replaced are gone.
    fn settle(&mut self) {
        self.gone.append(&mut self.perhaps);
    }
}

#[test]
fn a_node_that_is_killed_at_any_moment_loses_nothing_and_brings_nothing_back() {
    let scratch = Scratch::new("kills");
    let (mut chance, mut said) = (Chance::new(std::process::id().into()), Said::default());
    for round in 0..KILLS {
        let name = "disks::kills::works_until_it_is_killed";
        let mut child = Command::new(env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "--nocapture", name])
            .env(FOLDER, scratch.path())
            .env(FIRST, (1 + round * 1_000_000).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let heard = thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<String>>());
        thread::sleep(Duration::from_millis(50 + chance.below(250)));
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        heard.join().expect("it ends with the process").iter().for_each(|line| said.hear(line));
        let host = lent(scratch.path(), wish(1));
        let found = pieces(&host, SEGMENT);
        let numbers: BTreeSet<u64> = found.iter().map(|it| it.version.counter).collect();
        let lost: Vec<_> = said.there.values().filter(|it| !numbers.contains(it)).collect();
        assert!(lost.is_empty(), "lost, and neither dropped nor replaced: {lost:?}");
        let back: Vec<_> = numbers.intersection(&said.gone).collect();
        assert!(back.is_empty(), "dropped or replaced, and back: {back:?}");
        found.iter().for_each(|piece| assert_eq!(check(&host, SEGMENT, piece), Ok(())));
        assert_eq!(host.disks()[0].losses().objects(), 0);
        said.settle();
        said.there = numbers.iter().map(|&number| (number % SLOTS, number)).collect();
        said.gone.retain(|number| !numbers.contains(number));
    }
    assert!(said.puts > KILLS, "{}", said.puts);
}
