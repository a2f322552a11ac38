use crate::Program;

/// A storage node that has lent its memory, on loopback.
#[derive(Debug)]
pub struct Node {
    /// Its process.
    pub program: Program,
    /// Where others reach it, `HOST:PORT`: the name of its segment too.
    pub address: String,
}

impl Node {
    /// Starts the program at `path`, and waits until it is ready. It follows the master at `master`, and serves no dummies
    /// unless the flags say otherwise.
    ///
    /// # Panics
    /// It does not get ready.
    #[must_use]
    pub fn start(path: &str, master: &str, flags: &[&str]) -> Node {
        let master = format!("--master_server_address={master}");
        let args = [&["--host=127.0.0.1", "--port=0", &*master], flags].concat();
        let program = Program::start(path, &args);
        let line = program.line("the storage node is ready");
        let address = Program::field(&line, "address=").trim_matches('"').to_owned();
        Node { program, address }
    }
}
