//! One connection of a dummy, on a thread of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use mooncake_memory::{Interest, peer_of, poll_sockets};
use mooncake_types::{ClientId, ErrorCode};
use mooncake_wire::{Expected, Hello, Refusal, Role};

use super::answer::Answer;
use super::attached_dummy::Guest;
use super::line::{LineError, receive, send};
use super::lines::Line;
use super::protocol::{Call, MAX_BODY_BYTES, MAX_HELLO_BYTES, PROTOCOL_VERSION};
use super::server::{Shared, watch};
use super::{check_user, serve};

/// How long a dummy may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long it may take to send the rest of a frame, and to take an answer.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest buffer that is kept from call to call, in bytes.
const KEPT_BYTES: usize = 1 << 20;

/// Longest wait for a call, after which one waits again.
const LONG: Duration = Duration::from_secs(3600);

/// Most connections of one dummy.
const MAX_LINES_PER_GUEST: usize = 65;

/// Most dummies at a time.
const MAX_GUESTS: usize = 128;

/// Serves one connection to its end.
pub(super) fn serve(shared: &Shared, line: &Line) {
    match welcome(shared, line) {
        Err(refusal) => {
            tracing::warn!(%refusal, "a dummy client is refused");
            let Refusal { code, message } = refusal;
            // Whether it reads this does not matter.
            let _ = send(&line.stream, &Answer::Refused { code, message }.encode(), None);
        }
        Ok((guest, is_life_line)) => {
            let watched = guest.pid.filter(|_| is_life_line).and_then(watch);
            let _life = is_life_line.then(|| Life(shared, &guest));
            let end = converse(shared, line, &guest, watched.as_ref());
            match end {
                LineError::Closed => tracing::debug!(pid = ?guest.pid, "a dummy client hung up"),
                error => tracing::warn!(pid = ?guest.pid, %error, "a dummy client is cut off"),
            }
        }
    }
}

/// Ends its guest when dropped, also if the thread panics.
struct Life<'a>(&'a Shared, &'a Guest);

impl Drop for Life<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// The handshake: who the guest is, and whether this is the connection that it lives by.
fn welcome(shared: &Shared, line: &Line) -> Result<(Arc<Guest>, bool), Refusal> {
    let refuse = |code, message: &str| Refusal { code, message: message.to_owned() };
    let broken = |error: LineError| refuse(ErrorCode::InvalidParams, &error.to_string());
    let stream = &line.stream;
    let timeouts = stream
        .set_read_timeout(Some(HELLO_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(FRAME_TIMEOUT)));
    timeouts.map_err(|error| broken(error.into()))?;
    let pid = peer(line)?;
    let mut body = Vec::new();
    let received = receive(stream, MAX_HELLO_BYTES, &mut body).map_err(broken)?;
    let call = Call::decode(received.kind, &body).map_err(|error| broken(error.into()))?;
    let Call::Hello { version, token, guest } = call else {
        return Err(refuse(ErrorCode::InvalidParams, "the first frame must be a hello"));
    };
    check(shared, version, token)?;
    let (guest, is_life_line) = match guest {
        None => (invite(shared, pid)?, true),
        Some(id) => {
            let known = shared.guests().get(&id).filter(|guest| guest.pid == pid).cloned();
            let unknown = || refuse(ErrorCode::ClientNotFound, "there is no such dummy client");
            (known.ok_or_else(unknown)?, false)
        }
    };
    let hostname = shared.store.hostname().to_owned();
    let answer = Answer::Welcome { guest: guest.id, hostname };
    let welcomed = line.belongs_to(guest.id, MAX_LINES_PER_GUEST)
        && stream.set_read_timeout(Some(FRAME_TIMEOUT)).is_ok()
        && send(stream, &answer.encode(), None).is_ok();
    // A guest that ended meanwhile has cut off the connections that it had then, and this may not have been one.
    if !welcomed || !shared.guests().contains_key(&guest.id) {
        if is_life_line {
            shared.end(&guest);
        }
        return Err(refuse(ErrorCode::NoAvailableHandle, "it has too many connections, or ended"));
    }
    Ok((guest, is_life_line))
}

/// The process on the other side, if it may ask for anything: one of the same user, or of root.
fn peer(line: &Line) -> Result<Option<i32>, Refusal> {
    let peer = peer_of(line.stream.as_fd()).map_err(|error| Refusal {
        code: ErrorCode::InternalError,
        message: format!("the system does not tell who connected: {error}"),
    })?;
    let refuse = |message| Refusal { code: ErrorCode::IllegalClient, message };
    check_user(peer.uid).map_err(refuse).map(|()| peer.pid)
}

/// The rules of all connections of the pool, for what a dummy shows.
fn check(shared: &Shared, version: u32, token: &str) -> Result<(), Refusal> {
    if version != PROTOCOL_VERSION {
        let message = format!(
            "the mooncake_client speaks version {PROTOCOL_VERSION} to dummy clients, this one {version}"
        );
        return Err(Refusal { code: ErrorCode::InvalidVersion, message });
    }
    let hello = Hello {
        protocol_version: mooncake_wire::PROTOCOL_VERSION,
        cluster_id: String::new(),
        role: Role::Client,
        client: ClientId::default(),
        auth_token: token.to_owned(),
    };
    hello.check(&Expected { cluster_id: "", auth_token: &shared.auth_token })
}

fn invite(shared: &Shared, pid: Option<i32>) -> Result<Arc<Guest>, Refusal> {
    let failed = |code, message: &str| Refusal { code, message: message.to_owned() };
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|_| failed(ErrorCode::InternalError, "the system gives no random numbers"))?;
    let guest = Arc::new(Guest::new(u128::from_le_bytes(id), pid));
    let mut guests = shared.guests();
    if guests.len() >= MAX_GUESTS {
        return Err(failed(ErrorCode::NoAvailableHandle, "there are too many dummy clients"));
    }
    guests.insert(guest.id, Arc::clone(&guest));
    Ok(guest)
}

/// Answers calls until the connection ends; says why it did.
fn converse(shared: &Shared, line: &Line, guest: &Guest, watched: Option<&OwnedFd>) -> LineError {
    let mut body = Vec::new();
    loop {
        match turn(shared, line, guest, watched, &mut body) {
            Ok(()) => {}
            Err(LineError::Malformed(error)) => {
                let code = ErrorCode::InvalidParams;
                let refusal = Answer::Refused { code, message: error.to_string() };
                // Whether it reads this does not matter.
                let _ = send(&line.stream, &refusal.encode(), None);
                return LineError::Malformed(error);
            }
            Err(error) => return error,
        }
    }
}

fn turn(
    shared: &Shared,
    line: &Line,
    guest: &Guest,
    watched: Option<&OwnedFd>,
    body: &mut Vec<u8>,
) -> Result<(), LineError> {
    wait(line, watched)?;
    let received = receive(&line.stream, MAX_BODY_BYTES, body)?;
    let call = Call::decode(received.kind, body)?;
    let work = || serve::answer(&shared.store, guest, &call, received.descriptor);
    let answer = match &call {
        // They take no time, and nobody is to wait for others with them.
        Call::Share { .. } | Call::Unshare { .. } | Call::Health => work(),
        _ => shared.in_turn(work),
    }?;
    if body.capacity() > KEPT_BYTES {
        *body = Vec::new();
    }
    send(&line.stream, &answer.encode(), None)
}

/// Waits for a call, or for the end of the process that the connection stands for: processes that were forked from it
/// may keep its sockets open.
fn wait(line: &Line, watched: Option<&OwnedFd>) -> Result<(), LineError> {
    let read = Interest { read: true, write: false };
    loop {
        let mut sockets = vec![(line.stream.as_fd(), read)];
        sockets.extend(watched.map(|process| (process.as_fd(), read)));
        poll_sockets(&mut sockets, LONG)?;
        if sockets[0].1.read {
            return Ok(());
        }
        if sockets.get(1).is_some_and(|(_, ready)| ready.read) {
            return Err(LineError::Closed);
        }
    }
}
