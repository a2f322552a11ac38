//! A master as a child process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mooncake_http::admin::{self, AdminRequest};

use crate::Outcome;

/// A master as a child process. Dropping it kills the process.
pub(crate) struct Master {
    child: Child,
    address: String,
    admin: String,
}

impl Master {
    /// Starts a master on loopback with these flags, and waits until it serves or campaigns.
    pub(crate) fn start(program: &str, flags: &[String]) -> Outcome<Self> {
        let free = ["--port=0", "--metrics_port=0"];
        let here = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"];
        let mut command = Command::new(program);
        let mut child = command.args(flags).args(free).args(here).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("its standard error is a pipe")?;
        let mut lines = BufReader::new(stderr).lines();
        let (address, admin) = loop {
            let line = lines.next().ok_or("the master ended before it served")??;
            let field = |name| {
                let rest: &str = line.split_once(name)?.1;
                Some(rest.split(' ').next().unwrap_or_default().to_owned())
            };
            if let Some(found) = field("rpc_addr=").zip(field("admin_addr=")) {
                break found;
            }
        };
        // Reads on, so that the master does not block on a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self { child, address, admin })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// Waits until the admin server's answer for this path contains `words`.
    pub(crate) fn wait_for(&self, path: &str, words: &str, patience: Duration) -> Outcome<()> {
        let begun = Instant::now();
        while !self.says(path)?.contains(words) {
            if begun.elapsed() > patience {
                return Err(format!("{path} never says {words}").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn says(&self, path: &str) -> Outcome<String> {
        let asked = AdminRequest { method: "GET", path, ..AdminRequest::default() };
        Ok(admin::call(&self.admin, &asked)?.1)
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.kill();
    }
}
