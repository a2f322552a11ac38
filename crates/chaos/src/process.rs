use std::fs::{self, File, OpenOptions};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest wait for a step that takes a second on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The prefix of all names that a run makes. The process id of the run follows it.
pub(crate) const PREFIX: &str = "mooncake-chaos-";

/// The names in a folder that belong to runs whose process is gone.
pub(crate) fn left_behind(place: &str) -> Vec<String> {
    let names = fs::read_dir(place).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_left = |name: &String| {
        let process = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        let process = process.and_then(|text| text.parse::<u32>().ok());
        process.is_some_and(|process| fs::metadata(format!("/proc/{process}")).is_err())
    };
    names.filter(is_left).collect()
}

/// A running program and its log. Dropping it kills the program.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// The length of the log when the program started.
    logged: u64,
}

impl Process {
    /// Starts a program. Its output is appended to the log.
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Result<Process, String> {
        let open = || OpenOptions::new().create(true).append(true).open(&log);
        let file = open().map_err(|error| format!("{}: {error}", log.display()))?;
        let logged = file.metadata().map_or(0, |of| of.len());
        let errors = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::piped()).stdout(Stdio::from(file)).stderr(Stdio::from(errors));
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Process { child, log, logged })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        // The process may have ended by itself; [`Process::has_ended`] detects that.
        let _ = kill_process(pid, signal);
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Closes the standard input of the process, which tells it to end.
    pub(crate) fn hang_up(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits until the process has logged this text since its start.
    pub(crate) fn wait_for(&mut self, word: &str) -> Result<(), String> {
        let begun = Instant::now();
        while !self.has_logged(word) {
            if self.has_ended() || begun.elapsed() > PATIENCE {
                return Err(format!("{} never says {word:?}", self.log.display()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn has_logged(&self, word: &str) -> bool {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let own = bytes.get(self.logged as usize..).unwrap_or_default();
        String::from_utf8_lossy(own).contains(word)
    }

    /// Waits until the process has ended successfully. It was told to end before.
    pub(crate) fn wait_for_end(mut self, patience: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < patience {
            if let Ok(Some(status)) = self.child.try_wait() {
                let failed = || format!("{}: {status}", self.log.display());
                return if status.success() { Ok(()) } else { Err(failed()) };
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(format!("{} does not end", self.log.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A folder of this run, in shared memory so that no test waits for a disk. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(place: &str) -> Result<Folder, String> {
        for name in left_behind(place) {
            // Another run may have removed it meanwhile.
            let _ = fs::remove_dir_all(PathBuf::from(place).join(name));
        }
        let path = PathBuf::from(place).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A later run removes what remains.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Writes a whole file.
pub(crate) fn write(path: &PathBuf, text: &str) -> Result<(), String> {
    use std::io::Write;
    let written = File::create(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
