use crate::Program;

/// A storage node on loopback, which has lent its memory.
#[derive(Debug)]
pub struct Node {
    /// The process of the node.
    pub program: Program,
    /// The address of the node, `HOST:PORT`, which is also the name of its segment.
    pub address: String,
}

impl Node {
    /// Starts the program at `path` for this master, and waits until the node is ready. It serves no dummy clients,
    /// unless the flags say otherwise.
    ///
    /// # Panics
    /// If the node does not get ready.
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
