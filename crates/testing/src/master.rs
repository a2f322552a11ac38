use crate::{Program, http_get};

/// A master on loopback, without standbys.
#[derive(Debug)]
pub struct Master {
    /// The process of the master.
    pub program: Program,
    /// The address for clients and nodes, `HOST:PORT`.
    pub rpc: String,
    /// The address of the admin server, `HOST:PORT`.
    pub admin: String,
    path: String,
    flags: Vec<String>,
}

impl Master {
    /// Starts the program at `path` on free ports, and waits until it serves. It keeps no state file by default.
    /// `flags` come after the default ones, and override them.
    ///
    /// # Panics
    /// If the master does not serve.
    #[must_use]
    pub fn start(path: &str, flags: &[&str]) -> Master {
        let flags = ["--state_dir=none"].iter().chain(flags).map(ToString::to_string).collect();
        Self::start_at(path, flags, "0", "0")
    }

    /// As [`Master::start`], with a state file, for tests that start the master again.
    ///
    /// # Panics
    /// If the master does not serve.
    #[must_use]
    pub fn start_lasting(path: &str, flags: &[&str]) -> Master {
        Self::start_at(path, flags.iter().map(ToString::to_string).collect(), "0", "0")
    }

    fn start_at(path: &str, flags: Vec<String>, rpc_port: &str, admin_port: &str) -> Master {
        let rpc = format!("--rpc_port={rpc_port}");
        let admin = format!("--metrics_port={admin_port}");
        // `--port` is used while `--rpc_port` is 0.
        let mut args = vec!["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--port=0"];
        args.extend([&*rpc, &*admin]);
        args.extend(flags.iter().map(String::as_str));
        let program = Program::start(path, &args);
        let line = program.first_line("the master serves");
        let field = |name| Program::field(&line, name);
        let (rpc, admin) = (field("rpc_addr="), field("admin_addr="));
        Master { program, rpc, admin, path: path.to_owned(), flags }
    }

    /// Starts a new process at the ports of this one, which must have ended.
    ///
    /// # Panics
    /// If the master does not serve there.
    pub fn start_again(&mut self) {
        let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        let (rpc, admin) = (port(&self.rpc), port(&self.admin));
        *self = Self::start_at(&self.path, std::mem::take(&mut self.flags), &rpc, &admin);
    }

    /// Kills the process, and starts a new one at its ports.
    ///
    /// # Panics
    /// If the process had ended, or the new one does not serve.
    pub fn restart(&mut self) {
        self.program.kill();
        self.start_again();
    }

    /// The body of the admin server's answer for this path.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn says(&self, path: &str) -> String {
        http_get(&self.admin, path)
    }

    /// The value of a metric without labels.
    ///
    /// # Panics
    /// If there is no such metric, or its value is no whole number.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.says("/metrics");
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = values.next_back().unwrap_or_else(|| panic!("no {name} in\n{text}"));
        value.parse().expect("a whole number")
    }
}
