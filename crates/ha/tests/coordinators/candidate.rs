//! A candidate in its own process, which tests kill and pause.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use mooncake_ha::{Change, CoordinatorError, KubernetesAccess, Options, connect};
use mooncake_types::{Epoch, SegmentId};
use rustix::process::{Pid, Signal, kill_process};

use crate::world::follow;

/// Makes the test binary run as a candidate: name, address, cluster id, lease in milliseconds, API server.
const VARIABLE: &str = "MOONCAKE_HA_TEST_CANDIDATE";

/// The prefix of each line that a candidate prints.
const MARK: &str = "candidate: ";

/// A candidate that leads, records that segment 7 has joined, and renews its lease. Once deposed, it tries to record
/// that segment 8 has joined.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(name: &str, address: &str, options: &Options) -> Self {
        let api = options.kubernetes.as_ref().map_or("", |access| &access.url);
        let ttl_ms = options.ttl.as_millis();
        let told = [name, address, &options.cluster_id, &ttl_ms.to_string(), api].join("\n");
        let mut child = Command::new(std::env::current_exe().expect("the path of this program"))
            .args(["candidate::is_a_process_of_its_own", "--exact", "--ignored", "--nocapture"])
            .env(VARIABLE, told)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // The test runner prints the name of the test before the first line.
                if let Some((_, said)) = line.split_once(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { child, lines }
    }

    /// The rest of the next line, which must start with `word`.
    pub(crate) fn expect_line(&mut self, word: &str) -> String {
        let line = self.lines.recv_timeout(Duration::from_secs(30)).expect("a line in time");
        let said = line.strip_prefix(word).unwrap_or_else(|| panic!("{word}: {line}"));
        said.trim().to_owned()
    }

    pub(crate) fn expect_epoch(&mut self) -> Epoch {
        Epoch(self.expect_line("leads").parse().expect("a number"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("the process is there");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "it is what other tests start as a process"]
fn is_a_process_of_its_own() {
    // The process ends even if the test that started it was killed.
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(120));
        std::process::exit(1);
    });
    let told = std::env::var(VARIABLE).expect("told what to do");
    let told: Vec<&str> = told.split('\n').collect();
    let [name, address, cluster_id, ttl_ms, api] = told[..] else { panic!("{told:?}") };
    let access = KubernetesAccess { url: api.to_owned(), token_path: None, certificate_path: None };
    let options = Options {
        cluster_id: cluster_id.to_owned(),
        ttl: Duration::from_millis(ttl_ms.parse().expect("a number")),
        suspension: Duration::ZERO,
        kubernetes: (!api.is_empty()).then_some(access),
    };
    let coordinator = connect(address, &options).expect("an address");
    let leadership = follow(&coordinator, name, Duration::from_secs(20));
    leadership.apply(&[Change::Join(SegmentId(7))]).expect("it leads");
    println!("{MARK}leads {}", leadership.epoch());
    let mut ended = leadership.keep(&AtomicBool::new(false));
    // After a pause, the candidate may find its lease expired before it finds out that another one leads.
    while ended == mooncake_ha::Ended::Expired {
        ended = leadership.keep(&AtomicBool::new(false));
    }
    println!("{MARK}ended {ended:?}");
    let written = leadership.apply(&[Change::Join(SegmentId(8))]);
    let is_deposed = matches!(written, Err(CoordinatorError::Deposed { .. }));
    println!("{MARK}written {}", if is_deposed { "deposed" } else { "something else" });
}
