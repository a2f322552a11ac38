use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, RecvBatch, Resolver, Wait};
use mooncake_types::{ErrorCode, LogLimiter};
use mooncake_wire::{
    HEADER_LEN, Header, Hello, Kind, PROTOCOL_VERSION, Role, Welcome, decode_refusal,
    decode_welcome, encode_hello,
};

use super::Fault;
use super::lane::Lane;
use crate::{TcpConfig, local_socket, stream};

/// How often a waiting call looks at its deadline and at its lane's silence.
const WAITS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(250);

/// Connects and shakes hands.
pub(super) fn dial(
    endpoint: &Arc<str>,
    config: &TcpConfig,
    resolver: &Resolver,
) -> Result<Lane, Fault> {
    let (stream, welcome) = open(endpoint, config, resolver)?;
    let wait = config.transfer_timeout.min(config.silence_timeout) / 8;
    let wait = wait.clamp(*WAITS.start(), *WAITS.end());
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    Ok(Lane::new(stream, Arc::clone(endpoint), welcome.local_socket, config.busy_poll))
}

/// Connects to an address, or to a local socket if the endpoint names one, and shakes hands.
pub(crate) fn open(
    endpoint: &str,
    config: &TcpConfig,
    resolver: &Resolver,
) -> Result<(Private<TcpStream>, Welcome), Fault> {
    let deadline = Instant::now() + config.connect_timeout;
    let stream = match endpoint.strip_prefix(local_socket::MARK) {
        Some(name) => local_socket::connect(name, left(deadline)?)?,
        None => {
            let stream = connect(&resolver.resolve(endpoint, left(deadline)?)?, deadline)?;
            stream::tune(&stream)?;
            stream
        }
    };
    let welcome = shake_hands(&stream, config, deadline)?;
    Ok((stream, welcome))
}

/// Tries each address of the endpoint in turn. The connection counts as refused only if it was at every one.
fn connect(addresses: &[SocketAddr], deadline: Instant) -> Result<Private<TcpStream>, Fault> {
    let mut failure: Option<io::Error> = None;
    for address in addresses {
        match Private::connect(*address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Fault::TimedOut),
            Err(error) => {
                failure = failure.filter(|known| !is_refused(known)).or(Some(error));
            }
        }
    }
    let no_address = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    Err(failure.unwrap_or_else(no_address).into())
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn left(deadline: Instant) -> Result<Duration, Fault> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Fault::TimedOut) } else { Ok(left) }
}

fn shake_hands(
    stream: &TcpStream,
    config: &TcpConfig,
    deadline: Instant,
) -> Result<Welcome, Fault> {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        cluster_id: config.cluster_id.clone(),
        role: Role::Client,
        client: config.client,
        auth_token: config.auth_token.clone(),
    };
    let mut frame = Vec::new();
    encode_hello(&mut frame, 0, &hello);
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream::send_all(stream, &frame, &[], false)?;

    let mut head = [0; HEADER_LEN];
    recv_exact(stream, &mut head, deadline)?;
    let header = Header::decode(&head)?;
    if !matches!(header.kind, Kind::Welcome | Kind::Refusal) {
        let kind = header.kind;
        return Err(Fault::Protocol(format!("the answer to Hello cannot be a {kind:?} frame")));
    }
    let mut body = vec![0; header.body_len as usize];
    recv_exact(stream, &mut body, deadline)?;
    if header.kind == Kind::Refusal {
        let refusal = decode_refusal(&body)?;
        static REFUSED: LogLimiter<ErrorCode> = LogLimiter::new();
        if let Some(further) = REFUSED.admit(refusal.code, Instant::now()) {
            tracing::warn!(%refusal, further, "a node refused the connection");
        }
        return Err(Fault::Refused(refusal.code));
    }
    Ok(decode_welcome(&body)?)
}

fn recv_exact(stream: &TcpStream, mut bytes: &mut [u8], deadline: Instant) -> Result<(), Fault> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let mut batch = RecvBatch::new();
        let pushed = batch.push_bytes(bytes);
        debug_assert!(pushed);
        match batch.recv(stream.as_fd(), Wait::Block) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(Fault::TimedOut),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
