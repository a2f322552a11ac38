use std::io;
use std::sync::Arc;
use std::time::Instant;

use mooncake_types::{ErrorCode, LogLimiter};
use mooncake_wire::{DecodeError, FrameError, HEADER_LEN, Header, Kind, Refusal, encode_results};

use super::connection::{Origin, PeerConnection, STALL};
use super::held_pins::HeldPins;
use super::inbox::Inbox;
use super::keepalive::Keepalive;
use super::refuse;
use super::server_context::ServerContext;
use crate::sums::ChunkSums;
use crate::{SegmentHost, stream};

/// Why a connection ends.
pub(super) enum End {
    /// The peer closed it between frames, or it broke, or it was interrupted: no refusal can be sent.
    Gone(io::Error),
    /// The server sends the refusal, and then closes it.
    Refused(u64, Refusal),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Gone(error)
    }
}

impl End {
    pub(super) fn broken(request_id: u64, message: String) -> Self {
        End::Refused(request_id, Refusal { code: ErrorCode::InvalidParams, message })
    }

    pub(super) fn body(request_id: u64, error: &DecodeError) -> Self {
        Self::broken(request_id, format!("the body of a frame cannot be read: {error}"))
    }

    pub(super) fn header(error: &FrameError) -> Self {
        Self::broken(0, error.to_string())
    }
}

/// Serves one connection. Its buffers live as long as it does.
pub(super) struct Service {
    pub(super) connection: Arc<PeerConnection>,
    pub(super) host: Arc<dyn SegmentHost>,
    pub(super) context: Arc<ServerContext>,
    pub(super) inbox: Inbox,
    pub(super) sums: ChunkSums,
    pub(super) pins: HeldPins,
    /// Frames about to be sent.
    pub(super) out: Vec<u8>,
    /// A private copy of one chunk of a partial read.
    pub(super) bounce: Vec<u8>,
}

impl Service {
    pub(super) fn new(
        connection: Arc<PeerConnection>,
        context: Arc<ServerContext>,
        inbox: Inbox,
    ) -> Self {
        let host = Arc::clone(&context.host);
        let (sums, out, bounce) = (ChunkSums::default(), Vec::new(), Vec::new());
        let pins = HeldPins::default();
        Self { connection, host, context, inbox, sums, pins, out, bounce }
    }

    pub(super) fn run(mut self) {
        let end = match self.welcome().and_then(|()| self.serve()) {
            Ok(never) => match never {},
            Err(end) => end,
        };
        match end {
            End::Gone(error) => tracing::debug!(%error, "a data connection ended"),
            End::Refused(request_id, refusal) => {
                log_refusal(&refusal);
                refuse::refuse(self.connection.stream(), request_id, &refusal);
            }
        }
        self.drop_pins();
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        self.connection.stream().set_read_timeout(Some(STALL))?;
        self.connection.stream().set_write_timeout(Some(STALL))?;
        let is_local = self.connection.origin() == Origin::Local;
        loop {
            let header = self.next_header()?;
            match header.kind {
                kind if !self.takes(kind) => {
                    let message = format!("a connection for pins takes no {kind:?} frames");
                    return Err(End::broken(header.request_id, message));
                }
                Kind::Read => self.serve_read(&header)?,
                Kind::Write => self.serve_write(&header)?,
                Kind::Drop => self.serve_drop(&header)?,
                Kind::Promise => self.serve_promise(&header)?,
                Kind::Follow => self.serve_follow(&header)?,
                Kind::Share if is_local => self.serve_share(&header)?,
                Kind::Begin if is_local => self.serve_begin(&header)?,
                Kind::Pin if is_local => self.serve_pin(&header)?,
                Kind::Unpin if is_local => self.serve_unpin(&header)?,
                kind => {
                    let message = format!("a data port takes no {kind:?} frames");
                    return Err(End::broken(header.request_id, message));
                }
            }
        }
    }

    /// Sends keepalives for the request, until the result is dropped.
    pub(super) fn keepalive(&self, request_id: u64) -> Keepalive<'_> {
        self.context.keepalives.begin(&self.connection, request_id)
    }

    /// Answers with one result per range.
    pub(super) fn reply(
        &mut self,
        kind: Kind,
        request_id: u64,
        results: &[Result<(), ErrorCode>],
    ) -> Result<(), End> {
        self.out.clear();
        encode_results(&mut self.out, kind, request_id, results);
        self.send_out()
    }

    /// Sends the bytes in `out`.
    pub(super) fn send_out(&self) -> Result<(), End> {
        Ok(stream::send_all(self.connection.stream(), &self.out, &[], false)?)
    }

    /// Waits for the next frame without a limit. Once it has begun, waits for as long as bytes arrive.
    pub(super) fn next_header(&mut self) -> Result<Header, End> {
        while self.inbox.is_empty() {
            match self.inbox.await_request(self.connection.stream()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => result?,
            }
        }
        self.inbox.fill(self.connection.stream(), HEADER_LEN)?;
        self.take_header()
    }

    pub(super) fn take_header(&mut self) -> Result<Header, End> {
        let bytes = self.inbox.take(HEADER_LEN);
        let bytes = bytes.try_into().expect("exactly a header was taken");
        Header::decode(bytes).map_err(|error| End::header(&error))
    }

    pub(super) fn body(&mut self, header: &Header) -> Result<&[u8], End> {
        Ok(self.inbox.read(self.connection.stream(), header.body_len as usize)?)
    }
}

/// Logs one line for each kind of refusal, however many peers get it.
fn log_refusal(refusal: &Refusal) {
    static REFUSED: LogLimiter<ErrorCode> = LogLimiter::new();
    match REFUSED.admit(refusal.code, Instant::now()) {
        Some(further) => tracing::warn!(%refusal, further, "a data connection was refused"),
        None => tracing::debug!(%refusal, "a data connection was refused"),
    }
}
