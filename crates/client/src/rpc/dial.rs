use std::io;
use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::{CallFault, CallProgress, Connection, Fault};
use mooncake_tls::Tls;
use mooncake_types::{Epoch, ErrorCode};
use mooncake_wire::{Hello, Refusal};

use super::dial_error::DialError;
use super::masters::{Election, Masters};
use crate::address::MasterEndpoint;

/// How long each master may take to say whether it leads, when the present one is late.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);

/// Connects to the master and shakes hands.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) masters: Arc<Masters>,
    /// Makes the connection of each attempt.
    pub(crate) frames: mooncake_connection::Dialer,
    /// How long one attempt at one address may take, the handshake included.
    pub(crate) attempt_timeout: Duration,
    /// How long each call on the connection may take.
    pub(crate) call_timeout: Duration,
}

impl Dialer {
    /// A dialer that sends `hello`. A call polls for its reply up to `busy_poll` before it blocks.
    pub(crate) fn new(masters: Arc<Masters>, hello: Hello, busy_poll: Duration) -> Self {
        let resolver = masters.resolver().clone();
        let frames = mooncake_connection::Dialer::new(hello);
        let frames = mooncake_connection::Dialer { resolver, busy_poll, ..frames };
        Self { masters, frames, attempt_timeout: Duration::MAX, call_timeout: Duration::MAX }
    }

    /// Has connections to other hosts encrypted, if there are certificates.
    #[must_use]
    pub(crate) fn with_tls(mut self, tls: Option<Tls>) -> Self {
        self.frames.tls = tls;
        self
    }

    /// Connects to the address with this index, or to the elected leader. No attempt takes longer than `most`.
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

    /// Whether another master leads by now under a higher epoch, as far as that can be found out soon.
    pub(crate) fn finds_another(&self, epoch: Epoch) -> bool {
        match self.masters.at(0) {
            Err(election) => election.names_another(epoch),
            Ok(_) => (0..self.masters.count()).any(|address| {
                self.dial(address, PROBE_TIMEOUT).is_ok_and(|(_, found)| found > epoch)
            }),
        }
    }

    /// Connects to the known leader. If that does not answer, connects to the leader that was elected since.
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

    /// Connects to the first result for an address that answers. Results are at most a second old, if name servers
    /// answer.
    fn dial_at(
        &self,
        target: &MasterEndpoint,
        most: Duration,
    ) -> Result<(Connection, Epoch), DialError> {
        let address = target.to_string();
        let unreachable =
            |reason: String| DialError::Unreachable { address: address.clone(), reason };
        let lost = |error: io::Error| unreachable(error.to_string());
        let connection = self.frames.connect(&address, most);
        let mut connection = connection.map_err(|fault| unreachable(fault.to_string()))?;
        let greeted = self.frames.greet(&mut connection);
        let welcome = greeted.map_err(|failure| match failure.fault {
            Fault::Refused(Refusal { code: ErrorCode::UnavailableInCurrentMode, message }) => {
                DialError::Standby { address: address.clone(), message }
            }
            Fault::Refused(Refusal { code, message }) => {
                DialError::Refused { address: address.clone(), code, message }
            }
            _ => unreachable(no_greeting(&failure)),
        })?;
        let believed = self.masters.believe(welcome.epoch);
        believed.map_err(|why| DialError::Incredible { address: address.clone(), why })?;
        connection.set_timeout(self.call_timeout).map_err(lost)?;
        // Several names may belong to one master: its peer address identifies it.
        let master = match target {
            MasterEndpoint::Port(_) => connection.peer_addr().map_or(address, |it| it.to_string()),
            MasterEndpoint::Local(_) => address,
        };
        self.masters.on_connected(welcome.epoch, master, connection.stream());
        self.masters.note_shared_directory(welcome.shared_directory);
        Ok((connection, welcome.epoch))
    }
}

/// Why the first frame got no answer.
fn no_greeting(CallFault { fault, progress }: &CallFault) -> String {
    let is_mute = matches!(fault, Fault::TimedOut) || *progress == CallProgress::Closed;
    let hint = if is_mute { "; is this the RPC port of a master?" } else { "" };
    format!("{fault}{hint}")
}
