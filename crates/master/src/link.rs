use std::time::Duration;

use bytes::Bytes;
use mooncake_connection::{AsyncConnection, Dialer, Fault};
use mooncake_types::ClientId;
use mooncake_wire::{Hello, Kind, Role};

use crate::config::Config;

/// How long a connection may take, with its handshake.
const DIAL: Duration = Duration::from_secs(2);

/// How long one answer may take; shorter in tests.
const ANSWER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// A connection to a leader or a node.
pub(crate) struct Link(AsyncConnection);

impl Link {
    /// Connects, and shakes hands.
    pub(crate) async fn open(address: &str, config: &Config) -> Result<Link, Fault> {
        let hello = Hello {
            cluster_id: config.cluster_id.clone(),
            auth_token: config.auth_token.clone(),
            // The id is that of no client: it puts and lends nothing.
            ..Hello::new(Role::Client, ClientId(u128::MAX))
        };
        let dialer = Dialer { tls: config.tls.clone(), ..Dialer::new(hello) };
        let (connection, _) = dialer.dial_async(address, DIAL).await?;
        Ok(Link(connection))
    }

    /// Sends a frame and waits for the body of its answer, which is of this kind.
    pub(crate) async fn ask(
        &mut self,
        kind: Kind,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Bytes, Fault> {
        self.0.call(encode, kind, ANSWER).await
    }
}
