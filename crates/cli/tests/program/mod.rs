//! Programs of this package as processes of their own.

#![allow(dead_code, reason = "each test uses what it needs")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Where the masters of this process remember their members: nobody else's are there.
fn state_home() -> &'static PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let name = format!("state-{}-{}", std::process::id(), now.as_nanos());
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    })
}

/// A running program. Dropping it kills it.
pub(crate) struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Program {
    pub(crate) fn start(path: &str, args: &[&str]) -> Program {
        Self::start_told(path, args, &[])
    }

    /// Starts it with further variables of the environment.
    pub(crate) fn start_told(path: &str, args: &[&str], variables: &[(&str, &str)]) -> Program {
        let mut command = Command::new(path);
        command
            .envs(variables.iter().copied())
            .args(args)
            .env_remove("MOONCAKE_AUTH_TOKEN")
            .env_remove("MC_STORE_CLUSTER_ID");
        command.env_remove("MOONCAKE_ADVERTISE_ADDRESS").stdin(Stdio::null());
        command.env("XDG_STATE_HOME", state_home());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program exists");
        let stderr = child.stderr.take().expect("a pipe");
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            // Read on when nobody listens any more: the program must not stop at a full pipe.
            lines.for_each(|line| drop(send.send(line)));
        });
        Program { child, lines }
    }

    /// The next logged line that holds `word`.
    pub(crate) fn line(&self, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line =
                line.unwrap_or_else(|error| panic!("no line with {word}: {error} {others:?}"));
            if line.contains(word) {
                return line;
            }
            others.push(line);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
        if signal == Signal::STOP {
            self.wait_until_stopped();
        }
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it without a chance to say goodbye; returns when its ports are free.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("our child");
    }

    /// The value of a field in a logged line, whose name ends with an equals sign.
    pub(crate) fn field(line: &str, name: &str) -> String {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    /// A thread that runs on another processor stops a moment after the signal was sent.
    fn wait_until_stopped(&self) {
        let begun = Instant::now();
        while !self.threads_are_stopped() {
            assert!(begun.elapsed() < PATIENCE, "the process goes on");
            std::thread::yield_now();
        }
    }

    fn threads_are_stopped(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        threads.expect("the process runs").flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            // The name before it is in parentheses and may hold anything.
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
