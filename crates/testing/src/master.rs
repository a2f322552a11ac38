use crate::{Program, http_get};

/// A master that leads alone, on loopback.
#[derive(Debug)]
pub struct Master {
    /// Its process.
    pub program: Program,
    /// Where it serves clients and nodes, `HOST:PORT`.
    pub rpc: String,
    /// Where it serves admin HTTP, `HOST:PORT`.
    pub admin: String,
    path: String,
    flags: Vec<String>,
}

impl Master {
    /// Starts the program at `path`, on free ports, and waits until it serves. It remembers no members, unless the flags
    /// say otherwise: they come after those that this sets, and the last one counts.
    ///
    /// # Panics
    /// It does not serve.
    #[must_use]
    pub fn start(path: &str, flags: &[&str]) -> Master {
        let flags = ["--state_dir=none"].iter().chain(flags).map(ToString::to_string).collect();
        Self::start_at(path, flags, "0", "0")
    }

    /// As [`Master::start`], of one that remembers its members: for tests that start it again.
    ///
    /// # Panics
    /// It does not serve.
    #[must_use]
    pub fn start_lasting(path: &str, flags: &[&str]) -> Master {
        Self::start_at(path, flags.iter().map(ToString::to_string).collect(), "0", "0")
    }

    fn start_at(path: &str, flags: Vec<String>, rpc_port: &str, admin_port: &str) -> Master {
        let rpc = format!("--rpc_port={rpc_port}");
        let admin = format!("--metrics_port={admin_port}");
        // The older name of --rpc_port is used while that is 0.
        let mut args = vec!["--rpc_address=127.0.0.1", "--metrics_host=127.0.0.1", "--port=0"];
        args.extend([&*rpc, &*admin]);
        args.extend(flags.iter().map(String::as_str));
        let program = Program::start(path, &args);
        let line = program.first_line("the master serves");
        let field = |name| Program::field(&line, name);
        let (rpc, admin) = (field("rpc_addr="), field("admin_addr="));
        Master { program, rpc, admin, path: path.to_owned(), flags }
    }

    /// Starts another at the ports of this one, which has ended.
    ///
    /// # Panics
    /// It does not serve there.
    pub fn start_again(&mut self) {
        let port = |address: &str| address.rsplit(':').next().unwrap_or_default().to_owned();
        let (rpc, admin) = (port(&self.rpc), port(&self.admin));
        *self = Self::start_at(&self.path, std::mem::take(&mut self.flags), &rpc, &admin);
    }

    /// Kills it and starts another at its ports.
    ///
    /// # Panics
    /// It had ended, or the other does not serve.
    pub fn restart(&mut self) {
        self.program.kill();
        self.start_again();
    }

    /// The body of what its admin server answers.
    ///
    /// # Panics
    /// It does not answer.
    #[must_use]
    pub fn says(&self, path: &str) -> String {
        http_get(&self.admin, path)
    }

    /// The value of a metric without labels.
    ///
    /// # Panics
    /// There is no such metric, or it is no whole number.
    #[must_use]
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.says("/metrics");
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = values.next_back().unwrap_or_else(|| panic!("no {name} in\n{text}"));
        value.parse().expect("a whole number")
    }
}
