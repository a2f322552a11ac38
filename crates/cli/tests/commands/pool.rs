//! A master and a node, and the commands that are run against them.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use mooncake_testing::{Master, Node};
use serde_json::Value;

pub(crate) const MOONCAKE: &str = env!("CARGO_BIN_EXE_mooncake");
pub(crate) const MASTER: &str = env!("CARGO_BIN_EXE_mooncake_master");
pub(crate) const CLIENT: &str = env!("CARGO_BIN_EXE_mooncake_client");

/// A pool of one master and one node.
pub(crate) struct Pool {
    pub(crate) master: Master,
    pub(crate) node: Node,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) error: String,
}

impl Pool {
    /// A pool of 256 MB, with these flags of the master.
    pub(crate) fn start(flags: &[&str]) -> Self {
        Self::sized("256MB", flags)
    }

    pub(crate) fn sized(size: &str, flags: &[&str]) -> Self {
        let master = Master::start(MASTER, flags);
        let node = Node::start(CLIENT, &master.rpc, &[&format!("--global_segment_size={size}")]);
        Self { master, node }
    }

    /// The command, with the pool in its environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = mooncake(args);
        command.env("MOONCAKE_MASTER", &self.master.rpc);
        command.env("MOONCAKE_MASTER_HTTP", &self.master.admin);
        command
    }

    /// The command at a terminal of this size, which `script` makes.
    pub(crate) fn at_terminal(&self, size: &str, args: &str) -> Command {
        let inner = format!("stty {size}; exec \"$MOONCAKE\" {args}");
        let mut command = Command::new("script");
        command.args(["-qfec", &inner, "/dev/null"]);
        for (name, value) in self.command(&[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("MOONCAKE", MOONCAKE).env("SHELL", "/bin/sh");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, b"")
    }

    /// Runs a command with this standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Ended {
        fed(self.command(args), input)
    }
}

impl Ended {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text")
    }

    /// The lines of the output, each a JSON value.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Checks that the command succeeded, and returns its output.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!((self.status, &*self.error), (Some(0), ""));
        self
    }

    /// Checks the status, and that the complaint begins so.
    #[track_caller]
    pub(crate) fn fails(self, status: i32, error: &str) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        assert!(self.error.starts_with(error), "{self:?}");
        self
    }
}

/// A command that no variable of this process's environment changes.
pub(crate) fn mooncake(args: &[&str]) -> Command {
    let mut command = Command::new(MOONCAKE);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MOONCAKE_")
            || name.to_string_lossy().starts_with("MC_")
        {
            command.env_remove(name);
        }
    }
    command.args(args);
    command
}

/// Runs a command to its end with this standard input.
pub(crate) fn fed(mut command: Command, input: &[u8]) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program exists");
    let mut stdin = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        // A command may end before it has read all of it.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().expect("our child")
    });
    let Output { status, stdout, stderr } = output;
    Ended { status: status.code(), out: stdout, error: String::from_utf8(stderr).expect("text") }
}

/// A new folder of this test process.
pub(crate) fn folder(name: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

/// Bytes that tell their place.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64 / 8 + 1).flat_map(|word| (word * 0x9e37_79b9).to_le_bytes()).take(len).collect()
}
