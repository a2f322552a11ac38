use std::io;
use std::sync::Arc;
use std::time::Instant;

use mooncake_calls::CallPart;
use mooncake_connection::codec::{Awaited, BadFrame};
use mooncake_types::{ErrorCode, LogLimiter, Rights};
use mooncake_wire::{DecodeError, HEADER_LEN, Header, Kind, Refusal, encode_results, trace_of};

use super::connection::{Origin, PeerConnection, STALL};
use super::far_write::FarEndpoint;
use super::held_pins::HeldPins;
use super::keepalive::Keepalive;
use super::receiver::Receiver;
use super::refuse;
use super::registry::Registry;
use super::server_context::ServerContext;
use crate::sums::ChunkSums;
use crate::{FarLender, SegmentHost, stream};

/// The frames that a data port takes: Share, Begin, Expose and Join by TCP only from peers that reach its memory
/// one-sided, the last two only by its local socket.
const KINDS: [Kind; 11] = [
    Kind::Read,
    Kind::Write,
    Kind::Drop,
    Kind::Promise,
    Kind::Follow,
    Kind::Share,
    Kind::Begin,
    Kind::Expose,
    Kind::Join,
    Kind::Pin,
    Kind::Unpin,
];

/// How many of these it takes by TCP.
const KINDS_OF_TCP: usize = 5;

/// How many of these it takes by TCP if its segments are lent to other hosts.
const KINDS_OF_LENDER: usize = 9;

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

    /// With `other_kind`, what to say about the kind of a frame that is not awaited.
    pub(super) fn frame(error: &BadFrame, other_kind: impl Fn(Kind) -> String) -> Self {
        let message = match error {
            BadFrame::OtherKind { header, .. } => other_kind(header.kind),
            error => error.to_string(),
        };
        Self::broken(error.request_id(), message)
    }
}

/// Serves one connection. Its buffers live as long as it does.
pub(super) struct Service {
    pub(super) connection: Arc<PeerConnection>,
    pub(super) host: Arc<dyn SegmentHost>,
    pub(super) context: Arc<ServerContext>,
    pub(super) receiver: Receiver,
    pub(super) sums: ChunkSums,
    pub(super) pins: HeldPins,
    /// What the peer may do.
    pub(super) rights: Rights,
    /// The endpoint by which the peer has joined, or the one for what it begins, between two of these.
    pub(super) writer: Option<FarEndpoint>,
    /// Frames about to be sent.
    pub(super) out: Vec<u8>,
    /// A private copy of one chunk of a partial read.
    pub(super) bounce: Vec<u8>,
}

impl Service {
    pub(super) fn new(
        connection: Arc<PeerConnection>,
        context: Arc<ServerContext>,
        receiver: Receiver,
    ) -> Self {
        let host = Arc::clone(&context.host);
        let (sums, out, bounce) = (ChunkSums::default(), Vec::new(), Vec::new());
        let pins = HeldPins::default();
        let writer = None;
        let rights = Rights::NONE;
        Self { connection, host, context, receiver, sums, pins, rights, writer, out, bounce }
    }

    /// Serves the connection to its end. Returns what the peer has not given back in time.
    pub(super) fn run(mut self, registry: &Registry) -> Option<HeldPins> {
        let connection = Arc::clone(&self.connection);
        let welcomed = registry.while_greeting(&connection, || self.welcome());
        let end = match welcomed.and_then(|()| self.serve()) {
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
        self.drop_pins()
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        self.connection.stream().set_read_timeout(Some(STALL))?;
        self.connection.stream().set_write_timeout(Some(STALL))?;
        let context = Arc::clone(&self.context);
        loop {
            let (kinds, side) = self.kinds();
            let header =
                self.next_frame(kinds, |kind| format!("{side} takes no {kind:?} frames"))?;
            self.check_rights(&header)?;
            let name = watched(header.kind);
            let _call = name.map(|name| context.config.calls.serve(name, self.part(&header)));
            match header.kind {
                Kind::Read => self.serve_read(&header)?,
                Kind::Write => self.serve_write(&header)?,
                Kind::Drop => self.serve_drop(&header)?,
                Kind::Promise => self.serve_promise(&header)?,
                Kind::Follow => self.serve_follow(&header)?,
                Kind::Share => self.serve_share(&header)?,
                Kind::Begin => self.serve_begin(&header)?,
                Kind::Expose => self.serve_expose(&header)?,
                Kind::Join => self.serve_join(&header)?,
                Kind::Pin => self.serve_pin(&header)?,
                Kind::Unpin => self.serve_unpin(&header)?,
                kind => unreachable!("{side} does not await {kind:?} frames"),
            }
        }
    }

    /// What the next frame, with this header, says about its call.
    fn part(&self, header: &Header) -> CallPart {
        let body = &self.receiver.inbox.held()[HEADER_LEN..header.frame_len()];
        CallPart { request_id: header.request_id, trace: trace_of(header, body) }
    }

    /// Checks that the peer may send this frame. Its master has refused it before, so it is cut off.
    fn check_rights(&self, header: &Header) -> Result<(), End> {
        let needed = needed_for(header.kind);
        if self.rights.include(needed) {
            return Ok(());
        }
        let message = format!("the auth token allows {}, and not {needed}", self.rights);
        let refusal = Refusal { code: ErrorCode::PermissionDenied, message };
        Err(End::Refused(header.request_id, refusal))
    }

    /// The kinds of frames that the connection takes now, and what it is.
    fn kinds(&self) -> (&'static [Kind], &'static str) {
        match self.connection.origin() {
            _ if self.has_pinned() => (&[Kind::Pin, Kind::Unpin], "a connection for pins"),
            Origin::Tcp if self.lender().is_some() => (&KINDS[..KINDS_OF_LENDER], "a data port"),
            Origin::Tcp => (&KINDS[..KINDS_OF_TCP], "a data port"),
            Origin::Local => (&KINDS, "a data port"),
        }
    }

    /// By which the peer reaches the segments, if it is one of another host.
    pub(super) fn lender(&self) -> Option<Arc<FarLender>> {
        let lender = self.context.config.far.as_ref();
        lender.filter(|_| self.connection.origin() == Origin::Tcp).cloned()
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

    /// Waits for the next frame without a limit. Once it has begun, waits for as long as bytes arrive. With
    /// `other_kind`, what to say about a frame of another kind.
    pub(super) fn next_frame(
        &mut self,
        kinds: &[Kind],
        other_kind: impl Fn(Kind) -> String,
    ) -> Result<Header, End> {
        self.next_frame_until(None, kinds, other_kind)
    }

    /// As [`Service::next_frame`]. If there is a time, the peer is gone if it has sent nothing by then.
    pub(super) fn next_frame_until(
        &mut self,
        until: Option<Instant>,
        kinds: &[Kind],
        other_kind: impl Fn(Kind) -> String,
    ) -> Result<Header, End> {
        let stream = self.connection.stream();
        while self.receiver.inbox.is_empty() {
            if let Some(until) = until {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(End::Gone(io::ErrorKind::TimedOut.into()));
                }
                stream.set_read_timeout(Some(left))?;
            }
            match self.receiver.await_request(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.was_asked_in_vain() {
                        return Err(End::Gone(error));
                    }
                }
                result => result?,
            }
        }
        if until.is_some() {
            stream.set_read_timeout(Some(STALL))?;
        }
        let received = self.receiver.fill_frame(stream, &Awaited::any_of(kinds), || Ok(()))?;
        received.map_err(|error| End::frame(&error, other_kind))
    }

    /// Takes the frame with this header, which is the next, and returns its body.
    pub(super) fn body(&mut self, header: &Header) -> &[u8] {
        &self.receiver.inbox.take(header.frame_len())[HEADER_LEN..]
    }
}

/// The names of the requests that belong to calls of clients.
const fn watched(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Read => Some("read"),
        Kind::Write => Some("write"),
        Kind::Drop => Some("drop"),
        Kind::Promise => Some("promise"),
        Kind::Begin => Some("write_in_place"),
        Kind::Expose => Some("expose"),
        Kind::Pin => Some("pin"),
        _ => None,
    }
}

/// What a peer needs to send frames of this kind.
const fn needed_for(kind: Kind) -> Rights {
    match kind {
        Kind::Read | Kind::Promise | Kind::Pin | Kind::Unpin | Kind::Share => Rights::READ,
        // They give keys of what may be read. Those of ranges to write come by Begin.
        Kind::Join | Kind::Expose => Rights::READ,
        Kind::Write | Kind::Drop | Kind::Begin => Rights::WRITE,
        // Standby masters follow ledgers.
        _ => Rights::ALL,
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
