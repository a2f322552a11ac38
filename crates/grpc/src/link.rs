//! One gRPC connection as a client of the pool.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_connection::{AsyncConnection, Dialer, Fault};
use mooncake_types::{ClientId, Epoch, ErrorCode, Reply, Request, Secret, Version};
use mooncake_wire::{Hello, Kind, Role, decode_reply, encode_request};
use tokio::sync::Mutex;
use tonic::Status;

use crate::gateway::GatewayConfig;
use crate::lent_segments::LentSegments;

/// How long a connection may take, with its handshake.
const DIAL: Duration = Duration::from_secs(2);

/// A connection that was not used for so long is tried before it is relied on: the master may have closed it.
const TRIED_AFTER: Duration = Duration::from_secs(1);

/// Most puts of one connection that were started and not ended.
const MAX_PUTS: usize = 65_536;

/// One gRPC connection as a client of the pool.
pub(crate) struct Link {
    config: Arc<GatewayConfig>,
    client: ClientId,
    /// The connection to the master. A call takes it out, so that one that was cancelled is not used again.
    master: Mutex<MasterLink>,
    /// The versions of the puts that were started, by stored key.
    puts: std::sync::Mutex<HashMap<String, Version>>,
    pub(crate) segments: LentSegments,
}

#[derive(Default)]
struct MasterLink {
    /// The token with which the connection was opened.
    token: String,
    open: Option<(AsyncConnection, Epoch)>,
    used: Option<Instant>,
}

impl Link {
    /// A client that has not called yet.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(config: &Arc<GatewayConfig>) -> io::Result<Self> {
        Ok(Self {
            config: Arc::clone(config),
            client: ClientId(random()?),
            master: Mutex::default(),
            puts: std::sync::Mutex::default(),
            segments: LentSegments::default(),
        })
    }

    /// Sees to it that the master is connected, with this token.
    ///
    /// # Errors
    /// The status of a call that cannot begin.
    pub(crate) async fn admit(&self, token: &str) -> Result<(), Status> {
        let mut master = self.master.lock().await;
        if master.token != token {
            // Calls that wait for the master would go on with the rights of the other token.
            if master.used.is_some() {
                return Err(Status::unauthenticated(
                    "this connection was opened with another token: open one for each",
                ));
            }
            *master = MasterLink { token: token.to_owned(), ..MasterLink::default() };
        }
        let is_fresh = master.used.is_some_and(|used| used.elapsed() < TRIED_AFTER);
        if master.open.is_some() && is_fresh {
            return Ok(());
        }
        if master.open.is_some()
            && self.call(&mut master, &self.segments.ping(), DIAL).await.is_ok()
        {
            return Ok(());
        }
        self.dial(&mut master).await.map_err(|fault| status(&fault))
    }

    /// A handshake and nothing else, with the master's own token.
    ///
    /// # Errors
    /// What kept it from being welcome.
    pub(crate) async fn probe(config: &GatewayConfig) -> Result<(), Fault> {
        let client = ClientId(random()?);
        let dialer = dialer(config, client, config.auth_token.clone());
        dialer.dial_async(&config.master, DIAL).await.map(|_| ())
    }

    async fn dial(&self, master: &mut MasterLink) -> Result<(), Fault> {
        let dialer = dialer(&self.config, self.client, master.token.clone().into());
        let (connection, welcome) = dialer.dial_async(&self.config.master, DIAL).await?;
        master.open = Some((connection, welcome.epoch));
        master.used = Some(Instant::now());
        Ok(())
    }

    /// Asks the master.
    ///
    /// # Errors
    /// What broke the connection. The next request opens another.
    pub(crate) async fn ask(
        &self,
        request: &Request<'_>,
        within: Duration,
    ) -> Result<Reply, Fault> {
        let mut master = self.master.lock().await;
        if master.open.is_none() {
            self.dial(&mut master).await?;
        }
        self.call(&mut master, request, within).await
    }

    async fn call(
        &self,
        master: &mut MasterLink,
        request: &Request<'_>,
        within: Duration,
    ) -> Result<Reply, Fault> {
        let (mut connection, epoch) = master.open.take().ok_or(Fault::TimedOut)?;
        let encode = |out: &mut Vec<u8>, id| encode_request(out, id, request);
        let body: Bytes = connection.call(encode, Kind::Reply, within).await?;
        master.open = Some((connection, epoch));
        master.used = Some(Instant::now());
        Ok(decode_reply(body)?)
    }

    /// The epoch of the leader that the link is connected to.
    pub(crate) async fn epoch(&self) -> Option<Epoch> {
        self.master.lock().await.open.as_ref().map(|(_, epoch)| *epoch)
    }

    /// Opens connections to nodes, as this client.
    pub(crate) async fn node_dialer(&self) -> Dialer {
        dialer(&self.config, self.client, self.master.lock().await.token.clone().into())
    }

    /// Whether another put may be started.
    ///
    /// # Errors
    /// [`ErrorCode::NoAvailableHandle`] if too many are open.
    pub(crate) fn check_puts(&self) -> Result<(), ErrorCode> {
        match self.puts().len() < MAX_PUTS {
            true => Ok(()),
            false => Err(ErrorCode::NoAvailableHandle),
        }
    }

    /// The versions of the puts that were started, by stored key.
    pub(crate) fn puts(&self) -> std::sync::MutexGuard<'_, HashMap<String, Version>> {
        self.puts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dialer(config: &GatewayConfig, client: ClientId, auth_token: Secret) -> Dialer {
    let cluster_id = config.cluster_id.clone();
    let hello = Hello { cluster_id, auth_token, ..Hello::new(Role::Client, client) };
    Dialer { tls: config.tls.clone(), ..Dialer::new(hello) }
}

/// A random number of 128 bits.
///
/// # Errors
/// The system has none.
pub(crate) fn random() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Why a call cannot begin.
fn status(fault: &Fault) -> Status {
    match fault {
        Fault::Refused(refusal) if refusal.code == ErrorCode::IllegalClient => {
            Status::unauthenticated(refusal.message.clone())
        }
        Fault::Refused(refusal) if refusal.code == ErrorCode::PermissionDenied => {
            Status::permission_denied(refusal.message.clone())
        }
        fault => Status::unavailable(fault.to_string()),
    }
}
