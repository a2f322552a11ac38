use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use mooncake_memory::Resolver;

use super::reply::{Reply, read_reply};
use crate::location::RedisServer;

/// A connection that is logged in. After a failure it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    stream: BufReader<TimedStream>,
}

/// A stream whose calls end at a deadline.
#[derive(Debug)]
struct TimedStream {
    stream: TcpStream,
    deadline: Instant,
}

impl TimedStream {
    /// The time left. If there is none, that is an error, since a timeout of zero would mean no limit.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for TimedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Connection {
    /// Connects, and logs in if the address has a password.
    pub(super) fn open(server: &RedisServer, within: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + within;
        let stream = dial(&server.endpoint, deadline)?;
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::new(TimedStream { stream, deadline }) };
        if let Some(password) = &server.password {
            let user = server.user.as_deref();
            let words: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([&**password]).collect();
            connection.expect_ok(&words)?;
        }
        if server.database > 0 {
            connection.expect_ok(&["SELECT", &server.database.to_string()])?;
        }
        Ok(connection)
    }

    /// Sends a command, and reads its reply.
    pub(super) fn call(&mut self, words: &[&str], within: Duration) -> io::Result<Reply> {
        self.stream.get_mut().deadline = Instant::now() + within;
        self.exchange(words)
    }

    fn expect_ok(&mut self, words: &[&str]) -> io::Result<()> {
        match self.exchange(words)? {
            Reply::Text(_) => Ok(()),
            Reply::Refused(reason) => Err(io::Error::new(ErrorKind::PermissionDenied, reason)),
            _ => Err(io::Error::new(ErrorKind::InvalidData, "it is no reply of Redis")),
        }
    }

    fn exchange(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(command.as_bytes())?;
        read_reply(&mut self.stream).map_err(name_timeout)
    }
}

/// Names a timeout, which the system reports as "would block".
fn name_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// Looks names up for all connections of this process, in a bounded number of threads.
static RESOLVER: LazyLock<Resolver> = LazyLock::new(Resolver::default);

/// Connects to the first address of a name that accepts.
fn dial(endpoint: &str, deadline: Instant) -> io::Result<TcpStream> {
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in RESOLVER.resolve(endpoint, left()?)? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
