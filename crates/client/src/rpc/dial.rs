use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mooncake_types::{Epoch, ErrorCode};
use mooncake_wire::{Hello, Kind};

use super::connection::Connection;
use crate::address::HostPort;

/// Connects to the master's addresses and shakes hands.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) addresses: Vec<HostPort>,
    pub(crate) hello: Hello,
    /// How long one attempt at one address may take, the handshake included.
    pub(crate) attempt_timeout: Duration,
    /// How long each call on the connection may take.
    pub(crate) call_timeout: Duration,
    /// How long to look for a reply before sleeping for it; zero: not at all.
    pub(crate) busy_poll: Duration,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DialError {
    /// Nobody answered there.
    #[error("{address}: {reason}")]
    Unreachable { address: String, reason: String },
    /// Somebody answered and wants nothing to do with this client.
    #[error("{address} refused: {message}")]
    Refused { address: String, code: ErrorCode, message: String },
}

impl Dialer {
    /// Resolves an address, afresh each time, and connects to the first that answers.
    pub(crate) fn dial(&self, address: usize) -> Result<(Connection, Epoch), DialError> {
        let target = &self.addresses[address];
        let unreachable =
            |reason: String| DialError::Unreachable { address: target.to_string(), reason };
        let started = Instant::now();
        let resolved = (target.host.as_str(), target.port).to_socket_addrs();
        let resolved = resolved.map_err(|error| unreachable(error.to_string()))?;
        let mut last = unreachable("the name has no address".to_owned());
        for socket_address in resolved {
            let left = self.attempt_timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            match self.connect(socket_address, left) {
                Ok(connection) => return self.greet(connection, target),
                Err(error) => last = unreachable(error.to_string()),
            }
        }
        Err(last)
    }

    fn connect(&self, address: SocketAddr, within: Duration) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, within)?;
        // A port of the ephemeral range that nobody listens on can connect to itself.
        if stream.local_addr()? == stream.peer_addr()? {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        }
        Connection::new(stream, within, self.busy_poll)
    }

    fn greet(
        &self,
        mut connection: Connection,
        target: &HostPort,
    ) -> Result<(Connection, Epoch), DialError> {
        let address = target.to_string();
        let unreachable = |reason| DialError::Unreachable { address: address.clone(), reason };
        let answer = connection
            .exchange(|out, id| mooncake_wire::encode_hello(out, id, &self.hello))
            .map_err(|failure| unreachable(failure.error.to_string()))?;
        match answer.header.kind {
            Kind::Welcome => {
                let welcome = mooncake_wire::decode_welcome(&answer.body)
                    .map_err(|error| unreachable(error.to_string()))?;
                connection
                    .set_timeout(self.call_timeout)
                    .map_err(|error| unreachable(error.to_string()))?;
                Ok((connection, welcome.epoch))
            }
            Kind::Refusal => {
                let refusal = mooncake_wire::decode_refusal(&answer.body)
                    .map_err(|error| unreachable(error.to_string()))?;
                let (code, message) = (refusal.code, refusal.message);
                Err(DialError::Refused { address, code, message })
            }
            other => Err(unreachable(format!("it answered with a frame of kind {other:?}"))),
        }
    }
}
