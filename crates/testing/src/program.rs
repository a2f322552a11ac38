use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait of a test for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Environment variables that would change what a program does. They are removed.
const VARIABLES: [&str; 4] = [
    "MOONCAKE_AUTH_TOKEN",
    "MC_STORE_CLUSTER_ID",
    "MOONCAKE_ADVERTISE_ADDRESS",
    "MOONCAKE_BUSY_POLL_US",
];

/// The folder for state files of masters. Each test process has its own.
fn state_home() -> &'static PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let name = format!("mooncake-state-{}-{}", std::process::id(), now.as_nanos());
        // The build's folder for temporary files, above that of the test program.
        let program = std::env::current_exe().expect("this program has a place");
        let target = program.ancestors().nth(3).map(|folder| folder.join("tmp"));
        target.unwrap_or_else(std::env::temp_dir).join(name)
    })
}

/// A running program, with the lines that it logs. Dropping it kills the program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: RefCell<Vec<String>>,
}

impl Program {
    /// Starts a program, without environment variables that would change what it does.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[must_use]
    pub fn start(path: &str, args: &[&str]) -> Program {
        Self::start_with_variables(path, args, &[])
    }

    /// As [`Program::start`], with these environment variables.
    ///
    /// # Panics
    /// If the program cannot be started.
    #[must_use]
    pub fn start_with_variables(path: &str, args: &[&str], variables: &[(&str, &str)]) -> Program {
        let mut command = Command::new(path);
        command.args(args).env("XDG_STATE_HOME", state_home()).stdin(Stdio::null());
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        // The same in a container and elsewhere.
        command.env("MOONCAKE_WAIT_FOR_MASTER", "0").envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program exists");
        let stderr = child.stderr.take().expect("a pipe");
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            // Reads on when the receiver is gone, so that the program does not block on a full pipe.
            lines.for_each(|line| drop(send.send(line)));
        });
        Program { child, lines, seen: RefCell::default() }
    }

    /// Takes over a child process whose log is not read.
    #[must_use]
    pub fn without_log(child: Child) -> Program {
        Program { child, lines: mpsc::channel().1, seen: RefCell::default() }
    }

    /// Waits for the next logged line that contains `word`.
    ///
    /// # Panics
    /// If no line comes.
    pub fn line(&self, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|error| {
                panic!("no line with {word}: {error} {:#?}", self.seen.borrow())
            });
            self.seen.borrow_mut().push(line.clone());
            if line.contains(word) {
                return line;
            }
        }
    }

    /// The first logged line that contains `word`, among earlier lines too.
    ///
    /// # Panics
    /// If no line comes.
    pub fn first_line(&self, word: &str) -> String {
        let seen = self.seen.borrow().iter().find(|line| line.contains(word)).cloned();
        seen.unwrap_or_else(|| self.line(word))
    }

    /// How many of the lines that were read so far contain `word`.
    #[must_use]
    pub fn seen(&self, word: &str) -> usize {
        self.seen.borrow().iter().filter(|line| line.contains(word)).count()
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. After SIGSTOP, waits until all threads are stopped.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
        if signal == Signal::STOP {
            self.wait_until_stopped();
        }
    }

    /// Waits until the process ends, and returns its exit status.
    ///
    /// # Panics
    /// If the process does not end.
    pub fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends a signal that ends the process. Returns the exit code, and how long the end took.
    ///
    /// # Panics
    /// If the process does not end.
    pub fn stop(&mut self, signal: Signal) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        self.signal(signal);
        (self.end().code(), begun.elapsed())
    }

    /// Kills the process with SIGKILL. When this returns, its ports are free.
    ///
    /// # Panics
    /// If the process had ended before.
    pub fn kill(&mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("our child");
    }

    /// Waits until the process ends. Returns its exit status and the rest of its log.
    ///
    /// # Panics
    /// If the process does not end.
    #[must_use]
    pub fn outcome(mut self) -> (ExitStatus, String) {
        let status = self.end();
        (status, self.lines.iter().collect::<Vec<String>>().join("\n"))
    }

    /// Waits for the process to fail, and returns the rest of its log.
    ///
    /// # Panics
    /// If the process succeeds, or does not end.
    #[must_use]
    pub fn failure(self) -> String {
        let (status, log) = self.outcome();
        assert!(!status.success(), "it has ended well");
        log
    }

    /// The value of a field in a logged line. `name` ends with an equals sign.
    ///
    /// # Panics
    /// If there is no such field.
    #[must_use]
    pub fn field(line: &str, name: &str) -> String {
        let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    /// Threads on other processors stop a moment after SIGSTOP was sent.
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
            // The name before the state is in parentheses, and may contain anything.
            stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
