use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// What installs the servers that the tests need.
const INSTALL: &str =
    "make servers, or: apt-get install --no-install-recommends etcd-server redis-server";

/// A server program of the system, ended with the value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts it.
    ///
    /// # Panics
    /// It is not installed.
    pub(crate) fn start(program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        // The packaged version wants to be told that this is meant.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        match command.spawn() {
            Ok(child) => Self { child },
            Err(error) => panic!("{program} does not start ({error}); install it: {INSTALL}"),
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("the process is there");
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
