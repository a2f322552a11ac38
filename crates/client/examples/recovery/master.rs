use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::Outcome;

/// A master in a process of its own. Dropping it kills it.
pub(crate) struct Master {
    child: Child,
    address: String,
}

impl Master {
    /// Starts a master at a port of this host, any free one for `0`, and waits until it serves.
    pub(crate) fn start(program: &str, port: &str) -> Outcome<Self> {
        let port = format!("--rpc_port={port}");
        let free = ["--port=0", "--metrics_port=0"];
        let here = ["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1"];
        let mut command = Command::new(program);
        let mut child = command.arg(port).args(free).args(here).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or("its standard error is a pipe")?;
        let mut lines = BufReader::new(stderr).lines();
        let address = loop {
            let line = lines.next().ok_or("the master ended before it served")??;
            if let Some((_, rest)) = line.split_once("rpc_addr=") {
                break rest.split(' ').next().unwrap_or_default().to_owned();
            }
        };
        // Read on, so that the master does not stop at a full pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Self { child, address })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// Ends it without a chance to say goodbye.
    pub(crate) fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}
