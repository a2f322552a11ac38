use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_connection::codec::Awaited;
use mooncake_connection::{Admitted, Challenge, Roles};
use mooncake_wire::{
    Expected, Header, Kind, Welcome, decode_hello, decode_proof, encode_challenge, encode_welcome,
};

use super::ServerConfig;
use super::service::{End, Service};

/// A peer must send its hello within this time, which is shorter in tests.
const HANDSHAKE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5000 });

impl Service {
    /// Checks the peer's hello, and replies with a welcome or a refusal.
    pub(super) fn welcome(&mut self) -> Result<(), End> {
        let deadline = Instant::now() + HANDSHAKE;
        let other = |kind| format!("the first frame of a connection must be Hello, not {kind:?}");
        let header = self.greeting_frame(deadline, Kind::Hello, other)?;
        let id = header.request_id;
        let hello = decode_hello(self.body(&header)).map_err(|error| End::body(id, &error))?;
        let context = Arc::clone(&self.context);
        let ServerConfig { cluster_id, auth_token, roles, .. } = &context.config;
        let tokens = roles.as_ref().map(Roles::tokens);
        let roles = tokens.as_deref().unwrap_or_default();
        let expected = Expected { cluster_id, auth_token, roles };
        let drawn = Challenge::draw(&hello, &expected);
        let (id, admitted) = match drawn.map_err(|refusal| End::Refused(id, refusal))? {
            Some(challenge) => self.challenge((id, deadline), &challenge, &expected)?,
            None => (id, Admitted::BY_ALL),
        };
        self.rights = admitted.access.rights();
        let local_socket = self.context.local_socket.clone();
        let lender = self.context.config.far.as_ref();
        let transports = lender.and_then(|lender| lender.descriptor()).into_iter().collect();
        let mac = admitted.mac;
        let welcome = Welcome { local_socket, transports, mac, ..Welcome::new(self.host.epoch()) };
        self.out.clear();
        encode_welcome(&mut self.out, id, &welcome);
        self.send_out()
    }

    /// Has the peer prove that it knows a token. Returns what it may do, and the id of its answer.
    fn challenge(
        &mut self,
        (id, deadline): (u64, Instant),
        challenge: &Challenge,
        expected: &Expected<'_>,
    ) -> Result<(u64, Admitted), End> {
        self.out.clear();
        encode_challenge(&mut self.out, id, challenge.nonce());
        self.send_out()?;
        let other = |kind| format!("a challenge is answered by Proof, not by {kind:?}");
        let header = self.greeting_frame(deadline, Kind::Proof, other)?;
        let id = header.request_id;
        let proof = decode_proof(self.body(&header)).map_err(|error| End::body(id, &error))?;
        let admitted = challenge.check(&proof, expected);
        Ok((id, admitted.map_err(|refusal| End::Refused(id, refusal))?))
    }

    /// Waits for a frame of the handshake.
    fn greeting_frame(
        &mut self,
        deadline: Instant,
        kind: Kind,
        other: impl Fn(Kind) -> String,
    ) -> Result<Header, End> {
        let stream = self.connection.stream();
        // However slowly the bytes drip in, none is awaited beyond the deadline.
        let prepare = || {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))
        };
        let header = self.receiver.fill_frame(stream, &Awaited::any_of(&[kind]), prepare)?;
        header.map_err(|error| End::frame(&error, other))
    }
}
