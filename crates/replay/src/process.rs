//! A child process, which ends when this process ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// The hidden flag of `mooncake replay` that makes it call [`become_child`].
pub(crate) const CHILD_FLAG: &str = "--as-child-of";

/// Most lines of output that are kept for error messages.
const KEPT_LINES: usize = 30;
/// Most bytes of a line. Longer lines are cut.
const MAX_LINE_BYTES: u64 = 4096;
const STOP_DEADLINE: Duration = Duration::from_secs(5);
const OUTPUT_DEADLINE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

/// A running child. Dropping it stops it.
pub(crate) struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

/// Why a child could not be started.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{} does not exist; build or install it beside this program", program.display())]
    Missing { program: PathBuf },
    #[error("cannot start {}: {reason}", program.display())]
    Failed { program: PathBuf, reason: String },
}

impl Process {
    /// Starts `program` in a process group of its own, so that a Ctrl-C for this process does not reach it. The kernel
    /// kills the child when the calling thread ends. So that thread must live as long as the child is needed.
    ///
    /// `launcher` is the `mooncake` executable. In the child it asks the kernel for that signal, and then becomes
    /// `program`.
    pub(crate) fn spawn(
        name: &str,
        launcher: &Path,
        program: &Path,
        args: &[String],
    ) -> Result<Process, SpawnError> {
        if !program.is_file() {
            return Err(SpawnError::Missing { program: program.to_owned() });
        }
        let failed = |error: io::Error| SpawnError::Failed {
            program: program.to_owned(),
            reason: error.to_string(),
        };
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mut command = Command::new(launcher);
        command.arg("replay").arg(CHILD_FLAG).arg(std::process::id().to_string());
        command.arg("--").arg(program).args(args);
        command.process_group(0).stdin(Stdio::null());
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let child = command.spawn().map_err(failed)?;
        let output = Arc::default();
        let reader = thread::spawn({
            let output = Arc::clone(&output);
            move || keep_last_lines(reader, &output)
        });
        Ok(Process { name: name.to_owned(), child, output, reader })
    }

    /// The name of the process in messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The exit status, if the process has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The last lines of both output streams. Complete once the process was stopped.
    pub(crate) fn last_output(&self) -> String {
        let lines = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|line| format!("  {line}\n")).collect()
    }

    /// Sends SIGTERM and waits; kills the process if it misses the deadline. Further calls do nothing.
    pub(crate) fn stop(&mut self) {
        self.ask_to_stop();
        let deadline = Instant::now() + STOP_DEADLINE;
        while self.ended().is_none() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
        if self.ended().is_none() {
            // Both calls fail only if the child has ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // The output ends with the process, unless a process that it started still has the pipe.
        let deadline = Instant::now() + OUTPUT_DEADLINE;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(POLL);
        }
    }

    /// Sends SIGTERM without waiting, so that several children can stop in parallel.
    pub(crate) fn ask_to_stop(&mut self) {
        if self.ended().is_none()
            && let Some(pid) = Pid::from_raw(self.child.id().cast_signed())
        {
            // The child was not reaped yet, so no other process has its id.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Runs in the child: asks the kernel to kill this process with its parent, then becomes the program. Returns the
/// reason if that fails.
pub(crate) fn become_child(parent: u32, command: &[OsString]) -> String {
    let Some((program, args)) = command.split_first() else {
        return "no program is named".to_owned();
    };
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return format!("cannot tie this process to its parent: {error}");
    }
    // A parent that died before the call above sends no signal.
    let actual = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if actual != Some(parent) {
        return format!("process {parent}, which started this one, is gone");
    }
    let error = Command::new(program).args(args).exec();
    format!("cannot start {}: {error}", Path::new(program).display())
}

fn keep_last_lines(reader: PipeReader, kept: &Mutex<VecDeque<String>>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
    }
}
