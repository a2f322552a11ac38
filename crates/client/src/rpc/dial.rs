use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::Private;
use mooncake_ops::CallError;
use mooncake_types::{Epoch, ErrorCode};
use mooncake_wire::{Hello, Kind, Refusal};

use super::connection::{CallFailure, Connection};
use super::masters::{Election, Incredible, Masters};
use crate::address::HostPort;

/// How long a master may take to say whether it leads when another is late.
const GLANCE: Duration = Duration::from_millis(200);

/// Connects to the master and shakes hands.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) masters: Arc<Masters>,
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
    /// A master answered that does not lead.
    #[error("{address}: {message}")]
    Standby { address: String, message: String },
    /// Somebody answered and wants nothing to do with this client.
    #[error("{address} refused: {message}")]
    Refused { address: String, code: ErrorCode, message: String },
    /// A master answered that is not obeyed.
    #[error("{address}: {why}")]
    Incredible { address: String, why: Incredible },
}

impl Dialer {
    /// Connects to the address of this number, or to the leader, wherever it is. No attempt takes longer than `most`.
    pub(crate) fn dial(
        &self,
        address: usize,
        most: Duration,
    ) -> Result<(Connection, Epoch), DialError> {
        let most = most.min(self.attempt_timeout);
        match self.masters.at(address) {
            Ok(target) => self.dial_at(target, most),
            Err(election) => self.dial_leader(election, most),
        }
    }

    /// Whether another leads by now, under a higher epoch than this, as far as that can be found out soon.
    pub(crate) fn finds_another(&self, epoch: Epoch) -> bool {
        match self.masters.at(0) {
            Err(election) => election.names_another(epoch),
            Ok(_) => (0..self.masters.count())
                .any(|address| self.dial(address, GLANCE).is_ok_and(|(_, found)| found > epoch)),
        }
    }

    /// Connects to the leader that is known, and if it does not answer, to the one that was elected since.
    fn dial_leader(
        &self,
        election: &Election,
        most: Duration,
    ) -> Result<(Connection, Epoch), DialError> {
        let (mut leader, mut is_news) = election.leader()?;
        loop {
            let error = match self.dial_at(&leader, most) {
                Ok(dialed) => {
                    election.trust(&leader);
                    return Ok(dialed);
                }
                Err(error) => error,
            };
            election.doubt(&leader);
            if is_news {
                return Err(error);
            }
            let (now, _) = election.leader()?;
            if now == leader {
                return Err(error);
            }
            (leader, is_news) = (now, true);
        }
    }

    /// Resolves an address, afresh when a second has passed, and connects to the first that answers.
    fn dial_at(&self, target: &HostPort, most: Duration) -> Result<(Connection, Epoch), DialError> {
        let unreachable =
            |reason: String| DialError::Unreachable { address: target.to_string(), reason };
        let started = Instant::now();
        let endpoint = target.to_string();
        let resolved = self.masters.resolver().resolve(&endpoint, most);
        let resolved = resolved.map_err(|error| unreachable(error.to_string()))?;
        let mut last = unreachable("the name has no address".to_owned());
        for socket_address in resolved {
            let left = most.saturating_sub(started.elapsed());
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
        let stream = Private::connect(address, within)?;
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
            .map_err(|failure| unreachable(no_greeting(&failure)))?;
        match answer.header.kind {
            Kind::Welcome => {
                let welcome = mooncake_wire::decode_welcome(&answer.body)
                    .map_err(|error| unreachable(error.to_string()))?;
                let believed = self.masters.believe(welcome.epoch);
                believed.map_err(|why| DialError::Incredible { address: address.clone(), why })?;
                let lost = |error: io::Error| unreachable(error.to_string());
                connection.set_timeout(self.call_timeout).map_err(lost)?;
                let master = connection.peer_addr().map_err(lost)?;
                self.masters.on_connected(welcome.epoch, master, connection.handle());
                Ok((connection, welcome.epoch))
            }
            Kind::Refusal => {
                let refusal = mooncake_wire::decode_refusal(&answer.body)
                    .map_err(|error| unreachable(error.to_string()))?;
                Err(match refusal {
                    Refusal { code: ErrorCode::UnavailableInCurrentMode, message } => {
                        DialError::Standby { address, message }
                    }
                    Refusal { code, message } => DialError::Refused { address, code, message },
                })
            }
            other => Err(unreachable(format!("it answered with a frame of kind {other:?}"))),
        }
    }
}

/// Why there was no answer to the first frame.
fn no_greeting(failure: &CallFailure) -> String {
    let is_mute =
        matches!(failure.error, CallError::TimedOut { .. }) || failure.closed_before_reply;
    let hint = if is_mute { "; is this the RPC port of a master?" } else { "" };
    format!("{}{hint}", failure.error)
}
