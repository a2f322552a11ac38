use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// The commands that install the servers that the tests need.
const INSTALL: &str =
    "make servers, or: apt-get install --no-install-recommends etcd-server redis-server";

/// An installed server program; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
}

impl Server {
    /// Starts the server.
    ///
    /// # Panics
    /// The server is not installed.
    pub(crate) fn start(program: &str, arguments: &[String]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        // Debian's etcd runs on this architecture only if this variable is set.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        match command.spawn() {
            Ok(child) => Self { child },
            Err(error) => panic!("{program} does not start ({error}); install it: {INSTALL}"),
        }
    }

    /// Whether the server has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a process").is_some()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, signal).expect("the process is there");
    }

    /// Kills the server, and waits until it has ended.
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

/// A port that is free at this moment.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}
