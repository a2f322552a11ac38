use std::time::{Duration, Instant};

use mooncake_connection::Roles;
use mooncake_connection::codec::Awaited;
use mooncake_wire::{Expected, Kind, Welcome, decode_hello, encode_welcome};

use super::ServerConfig;
use super::service::{End, Service};

/// A peer must send its hello within this time, which is shorter in tests.
const HANDSHAKE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5000 });

impl Service {
    /// Checks the peer's hello, and replies with a welcome or a refusal.
    pub(super) fn welcome(&mut self) -> Result<(), End> {
        let deadline = Instant::now() + HANDSHAKE;
        let stream = self.connection.stream();
        // However slowly the bytes drip in, none is awaited beyond the deadline.
        let prepare = || {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
        };
        let hello = Awaited::any_of(&[Kind::Hello]);
        let header = self.receiver.fill_frame(stream, &hello, prepare)?;
        let header = header.map_err(|error| {
            let other =
                |kind| format!("the first frame of a connection must be Hello, not {kind:?}");
            End::frame(&error, other)
        })?;
        let id = header.request_id;
        let hello = decode_hello(self.body(&header)).map_err(|error| End::body(id, &error))?;
        let ServerConfig { cluster_id, auth_token, roles, .. } = &self.context.config;
        let tokens = roles.as_ref().map(Roles::tokens);
        let roles = tokens.as_deref().unwrap_or_default();
        let checked = hello.check(&Expected { cluster_id, auth_token, roles });
        self.rights = checked.map_err(|refusal| End::Refused(id, refusal))?.rights();
        let local_socket = self.context.local_socket.clone();
        let lender = self.context.config.far.as_ref();
        let transports = lender.and_then(|lender| lender.descriptor()).into_iter().collect();
        let welcome = Welcome { local_socket, transports, ..Welcome::new(self.host.epoch()) };
        self.out.clear();
        encode_welcome(&mut self.out, id, &welcome);
        self.send_out()
    }
}
