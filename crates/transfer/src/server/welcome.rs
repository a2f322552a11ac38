use std::time::{Duration, Instant};

use mooncake_wire::{Expected, HEADER_LEN, Kind, Welcome, decode_hello, encode_welcome};

use super::service::{End, Service};

/// A peer must send its hello within this time, which is shorter in tests.
const HANDSHAKE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5000 });

impl Service {
    /// Checks the peer's hello, and replies with a welcome or a refusal.
    pub(super) fn welcome(&mut self) -> Result<(), End> {
        let deadline = Instant::now() + HANDSHAKE;
        self.fill_by(deadline, HEADER_LEN)?;
        let header = self.take_header()?;
        let id = header.request_id;
        if header.kind != Kind::Hello {
            let message =
                format!("the first frame of a connection must be Hello, not {:?}", header.kind);
            return Err(End::broken(id, message));
        }
        self.fill_by(deadline, header.body_len as usize)?;
        let hello = decode_hello(self.inbox.take(header.body_len as usize))
            .map_err(|error| End::body(id, &error))?;
        let (cluster_id, auth_token) =
            (&self.context.config.cluster_id, &self.context.config.auth_token);
        hello
            .check(&Expected { cluster_id, auth_token })
            .map_err(|refusal| End::Refused(id, refusal))?;
        let local_socket = self.context.local_socket.clone();
        let welcome = Welcome { local_socket, ..Welcome::new(self.host.epoch()) };
        self.out.clear();
        encode_welcome(&mut self.out, id, &welcome);
        self.send_out()
    }

    /// Receives until `len` bytes are there, however slowly they drip in, but not beyond the deadline.
    fn fill_by(&mut self, deadline: Instant, len: usize) -> Result<(), End> {
        let mut held = 1;
        while held <= len {
            let left = deadline.saturating_duration_since(Instant::now());
            self.connection.stream().set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            self.inbox.fill(self.connection.stream(), held)?;
            held = (self.inbox.len() + 1).max(held + 1);
        }
        Ok(())
    }
}
