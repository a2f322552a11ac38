use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, Resolver};
use mooncake_tls::Tls;
use mooncake_types::host_port;
use mooncake_wire::{Hello, Kind, Welcome, encode_hello, encode_proof};
use socket2::{SockRef, TcpKeepalive};

use crate::{Answered, CallFault, Connection, Fault, LOCAL_MARK, TrustedUsers, on_answer};

/// The kernel begins to probe the peer once a connection has been idle for this long.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// The kernel ends a connection whose peer acknowledges nothing for this long.
const PEER_SILENCE: Duration = Duration::from_secs(5);

/// Connects to peers and shakes hands.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The hello that this process sends.
    pub hello: Hello,
    /// Finds the addresses of peers.
    pub resolver: Resolver,
    /// How long a call polls for its answer before it blocks. Zero: it does not poll.
    pub busy_poll: Duration,
    /// The users whose processes may be at the other end of a local socket.
    pub trusted: TrustedUsers,
    /// The certificates of this process, if connections between hosts are encrypted.
    pub tls: Option<Tls>,
}

impl Dialer {
    /// A dialer that sends `hello`, has its own resolver, never polls, and trusts only its own user.
    #[must_use]
    pub fn new(hello: Hello) -> Self {
        let (resolver, trusted) = (Resolver::default(), TrustedUsers::Own);
        Self { hello, resolver, busy_poll: Duration::ZERO, trusted, tls: None }
    }

    /// Connects to an endpoint and shakes hands.
    ///
    /// # Errors
    /// Those of [`Dialer::connect`] and [`Dialer::greet`].
    pub fn dial(&self, endpoint: &str, within: Duration) -> Result<(Connection, Welcome), Fault> {
        let mut connection = self.connect(endpoint, within)?;
        let welcome = self.greet(&mut connection)?;
        Ok((connection, welcome))
    }

    /// Connects to `host:port`, or to a local socket if the endpoint begins with [`LOCAL_MARK`]. Each call on the
    /// connection may take the time that is left of `within`.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] once `within` is over; otherwise the first error that is not
    /// [`io::ErrorKind::ConnectionRefused`]. That error is returned only if every address refused.
    pub fn connect(&self, endpoint: &str, within: Duration) -> Result<Connection, Fault> {
        // The deadline may be later than `Instant` can represent.
        let deadline = Instant::now().checked_add(within).ok_or(Fault::TimedOut)?;
        let (stream, ends) = match endpoint.strip_prefix(LOCAL_MARK) {
            Some(name) => (self.trusted.connect(name, Some(left(deadline)?))?, None),
            None => {
                let (stream, ends) = self.connect_by_tcp(endpoint, deadline)?;
                (self.secure(stream, endpoint, left(deadline)?)?, Some(ends))
            }
        };
        Ok(Connection::new(stream, left(deadline)?, self.busy_poll)?.between(ends))
    }

    /// Tries each address in turn, until one accepts or the deadline passes.
    fn connect_by_tcp(
        &self,
        endpoint: &str,
        deadline: Instant,
    ) -> Result<(Private<TcpStream>, Ends), Fault> {
        let mut attempts = Attempts::default();
        for address in self.resolver.resolve(endpoint, left(deadline)?)? {
            if let Some(stream) = attempts.take(connect_to(address, left(deadline)?))? {
                return Ok(stream);
            }
        }
        Err(attempts.into())
    }

    /// Has all bytes encrypted, if this process has certificates.
    fn secure(
        &self,
        stream: Private<TcpStream>,
        endpoint: &str,
        within: Duration,
    ) -> io::Result<Private<TcpStream>> {
        match &self.tls {
            Some(tls) => tls.connect(stream, host_of(endpoint), within),
            None => Ok(stream),
        }
    }

    /// Shakes hands on a new connection.
    ///
    /// # Errors
    /// [`Fault::Refused`] if the peer refuses this process, or does not prove that it knows the token; otherwise the fault that broke the connection.
    pub fn greet(&self, connection: &mut Connection) -> Result<Welcome, CallFault> {
        let hello = |out: &mut Vec<u8>, id| encode_hello(out, id, &self.hello);
        let answer = connection.ask(hello, &[Kind::Welcome, Kind::Challenge])?;
        let asked = match on_answer(&self.hello, answer)? {
            Answered::Welcomed(welcome) => return Ok(welcome),
            Answered::Asked(asked) => asked,
        };
        let proof = |out: &mut Vec<u8>, id| encode_proof(out, id, &asked.proof);
        let (_, body) = connection.ask(proof, &[Kind::Welcome])?;
        Ok(asked.on_welcome(&body)?)
    }
}

/// Sets the options of every TCP connection: packets leave without delay, and the kernel notices a vanished host.
/// Sets no buffer sizes: a fixed size turns the kernel's own sizing off.
///
/// # Errors
/// The error of the system call.
pub fn tune(stream: &impl AsFd) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(Duration::from_secs(2));
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(PEER_SILENCE))
}

/// The addresses of the two ends of a TCP connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

fn connect_to(address: SocketAddr, within: Duration) -> io::Result<(Private<TcpStream>, Ends)> {
    let stream = Private::connect(address, within)?;
    let ends = prepare(&stream)?;
    Ok((stream, ends))
}

/// Sets the options of a socket that has just been connected by TCP.
pub(crate) fn prepare(stream: &impl AsFd) -> io::Result<Ends> {
    let socket = SockRef::from(stream);
    let no_address = || io::Error::other("a TCP connection has two addresses");
    let local = socket.local_addr()?.as_socket().ok_or_else(no_address)?;
    let peer = socket.peer_addr()?.as_socket().ok_or_else(no_address)?;
    // TCP can connect an ephemeral port without a listener to itself.
    if local == peer {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    tune(stream)?;
    Ok(Ends { local, peer })
}

/// The host that stands in an endpoint.
pub(crate) fn host_of(endpoint: &str) -> &str {
    host_port::split(endpoint).map_or(endpoint, |(host, _)| host)
}

/// Why none of the addresses of a name that were tried could be connected to.
#[derive(Default)]
pub(crate) struct Attempts(Option<io::Error>);

impl Attempts {
    /// Takes the result of an attempt: a connection, or nothing if the next address is to be tried.
    pub(crate) fn take<T>(&mut self, tried: io::Result<T>) -> Result<Option<T>, Fault> {
        match tried {
            Ok(connected) => Ok(Some(connected)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(Fault::TimedOut),
            Err(error) => {
                let is_refused =
                    |known: &io::Error| known.kind() == io::ErrorKind::ConnectionRefused;
                self.0 = self.0.take().filter(|known| !is_refused(known)).or(Some(error));
                Ok(None)
            }
        }
    }
}

impl From<Attempts> for Fault {
    fn from(Attempts(failure): Attempts) -> Self {
        let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        failure.unwrap_or_else(no_address).into()
    }
}

fn left(deadline: Instant) -> Result<Duration, Fault> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Fault::TimedOut) } else { Ok(left) }
}
