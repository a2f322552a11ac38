//! A connection to the master that sends requests without waiting for replies.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use mooncake_types::{ClientId, Epoch, Reply, Request};
use mooncake_wire::{
    HEADER_LEN, Header, Hello, Kind, Role, decode_refusal, decode_reply, decode_welcome,
    encode_hello, encode_request,
};

/// Longest wait for a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the load failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The master cannot be reached, or the connection broke.
    #[error("the connection to the master failed: {0}")]
    Io(#[from] io::Error),
    /// The master sent an unexpected answer.
    #[error("the answer to {to} was {got}")]
    Answer {
        /// The request that was answered.
        to: &'static str,
        /// The answer.
        got: String,
    },
}

pub(crate) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    body: Vec<u8>,
    last_id: u64,
    /// The master's epoch, from the handshake.
    epoch: Epoch,
}

impl Connection {
    /// Connects to the master, and shakes hands.
    ///
    /// # Errors
    /// If the master cannot be reached, or refuses the client.
    pub(crate) fn open(master: &str, client: ClientId) -> Result<Self, LoadError> {
        let stream = TcpStream::connect(master)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (out, body, last_id) = (Vec::new(), Vec::new(), 0);
        let mut opened = Self { stream, out, body, last_id, epoch: Epoch(0) };
        let cluster_id = mooncake_client::StoreConfig::default().cluster_id;
        let hello = Hello { cluster_id, ..Hello::new(Role::Client, client) };
        encode_hello(&mut opened.out, 0, &hello);
        opened.flush()?;
        let header = opened.frame()?;
        if header.kind == Kind::Welcome {
            let welcome = decode_welcome(&opened.body).map_err(io::Error::other)?;
            opened.epoch = welcome.epoch;
            return Ok(opened);
        }
        let refusal = decode_refusal(&opened.body);
        let got = refusal.map_or_else(|error| error.to_string(), |refusal| refusal.to_string());
        Err(LoadError::Answer { to: "the handshake", got })
    }

    /// The epoch of the master.
    pub(crate) const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Queues a request, and returns its id.
    pub(crate) fn queue(&mut self, request: &Request<'_>) -> u64 {
        self.last_id += 1;
        encode_request(&mut self.out, self.last_id, request);
        self.last_id
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// If the connection is broken.
    pub(crate) fn flush(&mut self) -> Result<(), LoadError> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Waits for the next reply. Returns it with the id of its request.
    ///
    /// # Errors
    /// If the connection is broken, or the frame is not a reply.
    pub(crate) fn answer(&mut self) -> Result<(u64, Reply), LoadError> {
        let header = self.frame()?;
        let wrong = |got: String| LoadError::Answer { to: "a request", got };
        if header.kind != Kind::Reply {
            return Err(wrong(format!("a frame of kind {:?}", header.kind)));
        }
        let body = std::mem::take(&mut self.body);
        let reply = decode_reply(body.into()).map_err(|error| wrong(error.to_string()))?;
        Ok((header.request_id, reply))
    }

    /// Sends a request, and waits for its reply. No other request may be in flight.
    ///
    /// # Errors
    /// Those of [`Connection::flush`] and [`Connection::answer`].
    pub(crate) fn call(&mut self, request: &Request<'_>) -> Result<Reply, LoadError> {
        self.queue(request);
        self.flush()?;
        Ok(self.answer()?.1)
    }

    /// Reads a frame. Its body is then in `self.body`.
    fn frame(&mut self) -> Result<Header, LoadError> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header)?;
        let header = Header::decode(&header)
            .map_err(|error| LoadError::Answer { to: "a request", got: error.to_string() })?;
        self.body.resize(header.body_len as usize, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(header)
    }
}
