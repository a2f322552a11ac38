use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Variables that would change what a program does.
const VARIABLES: [&str; 4] = [
    "MOONCAKE_AUTH_TOKEN",
    "MC_STORE_CLUSTER_ID",
    "MOONCAKE_ADVERTISE_ADDRESS",
    "MOONCAKE_BUSY_POLL_US",
];

/// Where the masters of this process remember their members: nobody else's are there.
fn state_home() -> &'static PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        let name = format!("mooncake-state-{}-{}", std::process::id(), now.as_nanos());
        // Beside the folder of the program that runs the tests: where the build puts what is temporary.
        let program = std::env::current_exe().expect("this program has a place");
        let target = program.ancestors().nth(3).map(|folder| folder.join("tmp"));
        target.unwrap_or_else(std::env::temp_dir).join(name)
    })
}

/// A running program and the lines that it logs. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: RefCell<Vec<String>>,
}

impl Program {
    /// Starts it, with nothing in its environment that would change what it does.
    ///
    /// # Panics
    /// There is no such program.
    #[must_use]
    pub fn start(path: &str, args: &[&str]) -> Program {
        Self::start_told(path, args, &[])
    }

    /// As [`Program::start`], with these variables in its environment.
    ///
    /// # Panics
    /// There is no such program.
    #[must_use]
    pub fn start_told(path: &str, args: &[&str], variables: &[(&str, &str)]) -> Program {
        let mut command = Command::new(path);
        command.args(args).env("XDG_STATE_HOME", state_home()).stdin(Stdio::null());
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command.envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program exists");
        let stderr = child.stderr.take().expect("a pipe");
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stderr).lines().map_while(Result::ok);
            // Read on when nobody listens any more: the program must not stop at a full pipe.
            lines.for_each(|line| drop(send.send(line)));
        });
        Program { child, lines, seen: RefCell::default() }
    }

    /// Takes over what was started otherwise. Nobody listens to it.
    #[must_use]
    pub fn unheard(child: Child) -> Program {
        Program { child, lines: mpsc::channel().1, seen: RefCell::default() }
    }

    /// The next logged line that holds `word`.
    ///
    /// # Panics
    /// None comes.
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

    /// The first logged line that holds `word`, whether or not it was asked for before.
    ///
    /// # Panics
    /// None comes.
    pub fn first_line(&self, word: &str) -> String {
        let seen = self.seen.borrow().iter().find(|line| line.contains(word)).cloned();
        seen.unwrap_or_else(|| self.line(word))
    }

    /// How many of the lines that were looked at so far hold `word`.
    #[must_use]
    pub fn seen(&self, word: &str) -> usize {
        self.seen.borrow().iter().filter(|line| line.contains(word)).count()
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal. One that is to stop it has done so when this returns.
    ///
    /// # Panics
    /// It has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
        if signal == Signal::STOP {
            self.wait_until_stopped();
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not end.
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

    /// Asks it to stop; gives how it ended and how long that took.
    ///
    /// # Panics
    /// It does not end.
    pub fn stop(&mut self, signal: Signal) -> (Option<i32>, Duration) {
        let begun = Instant::now();
        self.signal(signal);
        (self.end().code(), begun.elapsed())
    }

    /// Ends it without a chance to say goodbye; returns when its ports are free.
    ///
    /// # Panics
    /// It has ended before.
    pub fn kill(&mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("our child");
    }

    /// What it says when it fails.
    ///
    /// # Panics
    /// It ends well, or does not end.
    #[must_use]
    pub fn failure(mut self) -> String {
        let status = self.end();
        assert!(!status.success(), "it has ended well");
        self.lines.iter().collect::<Vec<String>>().join("\n")
    }

    /// The value of a field in a logged line, whose name ends with an equals sign.
    ///
    /// # Panics
    /// There is no such field.
    #[must_use]
    pub fn field(line: &str, name: &str) -> String {
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
