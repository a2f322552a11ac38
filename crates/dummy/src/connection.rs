//! Serves one connection of a dummy, on a thread of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::{CallFault, CallProgress, Connection, Fault, TrustedUsers};
use mooncake_memory::{Interest, peer_of, poll_sockets};
use mooncake_types::{DummyReply, DummyRequest, Epoch, ErrorCode};
use mooncake_wire::{
    Expected, Kind, Refusal, Welcome, decode_dummy_request, decode_hello, encode_dummy_reply,
    encode_refusal, encode_welcome,
};

use super::attached_dummies::AttachedDummies;
use super::attached_dummy::AttachedDummy;
use super::open_connections::Registration;
use super::serve;

/// How long a dummy may take to identify itself.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a dummy may take to send the rest of a frame, or to take an answer.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Most connections of one dummy.
const MAX_CONNECTIONS_OF_A_DUMMY: usize = 65;

/// Most dummies at a time.
const MAX_DUMMIES: usize = 128;

/// Serves one connection to its end.
pub(super) fn serve(dummies: &AttachedDummies, connection: &mut Connection) {
    let registration = dummies.connections.register(connection.stream());
    match welcome(dummies, connection, &registration) {
        Err(refusal) => {
            tracing::warn!(%refusal, "a dummy client is refused");
            refuse(connection, &refusal);
        }
        Ok((dummy, is_control)) => {
            let watched = dummy.pid.filter(|_| is_control).and_then(watch);
            let _guard = is_control.then(|| DetachOnDrop(dummies, &dummy));
            let end = answer_calls(dummies, connection, &dummy, watched.as_ref());
            match end {
                CallFault { progress: CallProgress::Closed, .. } => {
                    tracing::debug!(pid = ?dummy.pid, "a dummy client hung up");
                }
                CallFault { fault, .. } => {
                    tracing::warn!(pid = ?dummy.pid, %fault, "a dummy client is cut off");
                }
            }
        }
    }
}

/// Detaches a dummy at the end of its control connection, also if the thread panics.
struct DetachOnDrop<'a>(&'a AttachedDummies, &'a AttachedDummy);

impl Drop for DetachOnDrop<'_> {
    fn drop(&mut self) {
        self.0.detach(self.1);
    }
}

/// Sends a refusal. Whether the dummy reads it does not matter.
fn refuse(connection: &mut Connection, refusal: &Refusal) {
    let _ = connection.send(|out| encode_refusal(out, 0, refusal));
}

/// The handshake. Returns the dummy, and whether this is its control connection.
fn welcome(
    dummies: &AttachedDummies,
    connection: &mut Connection,
    registration: &Registration<'_>,
) -> Result<(Arc<AttachedDummy>, bool), Refusal> {
    let refuse = |code, message: &str| Refusal { code, message: message.to_owned() };
    let broken = |fault: CallFault| refuse(ErrorCode::InvalidParams, &fault.fault.to_string());
    let socket = Arc::clone(connection.stream());
    let trusted = TrustedUsers::OwnOrRoot.check(socket.as_fd());
    trusted.map_err(|stranger| refuse(ErrorCode::IllegalClient, &stranger.to_string()))?;
    let pid = peer_of(socket.as_fd()).ok().and_then(|peer| peer.pid);
    hello(dummies, connection).map_err(|fault| match fault.fault {
        Fault::Refused(refusal) => refusal,
        _ => broken(fault),
    })?;
    let (request_id, attachment) = attach_request(connection).map_err(broken)?;
    let (dummy, is_control) = match attachment {
        None => (attach_new(dummies, pid)?, true),
        Some(id) => {
            let known = dummies.lock().get(&id).filter(|dummy| dummy.pid == pid).cloned();
            let unknown = || refuse(ErrorCode::ClientNotFound, "there is no such dummy client");
            (known.ok_or_else(unknown)?, false)
        }
    };
    let hostname = dummies.store.hostname().to_owned();
    let reply = DummyReply::Attached { attachment: dummy.id, hostname };
    let attached = registration.belongs_to(dummy.id, MAX_CONNECTIONS_OF_A_DUMMY)
        && connection.set_timeout(FRAME_TIMEOUT).is_ok()
        && connection.send(|out| encode_dummy_reply(out, request_id, &reply)).is_ok();
    // If the dummy was detached meanwhile, its connections were cut off, perhaps without this one.
    if !attached || !dummies.lock().contains_key(&dummy.id) {
        if is_control {
            dummies.detach(&dummy);
        }
        return Err(refuse(ErrorCode::NoAvailableHandle, "it has too many connections, or ended"));
    }
    Ok((dummy, is_control))
}

/// The handshake that all connections of the pool begin with.
fn hello(dummies: &AttachedDummies, connection: &mut Connection) -> Result<(), CallFault> {
    let frame = connection.receive(&[Kind::Hello])?;
    let hello = decode_hello(&frame.body).map_err(Fault::from)?;
    let id = frame.header.request_id;
    // A dummy does not know the name of the cluster.
    let expected = Expected { cluster_id: "", auth_token: &dummies.auth_token };
    hello.check(&expected).map_err(Fault::Refused)?;
    connection.send(|out| encode_welcome(out, id, &Welcome::new(Epoch::default())))
}

/// Receives the first request. Returns its id, and the attachment that it names.
fn attach_request(connection: &mut Connection) -> Result<(u64, Option<u128>), CallFault> {
    let frame = connection.receive(&[Kind::DummyRequest])?;
    let id = frame.header.request_id;
    let message = decode_dummy_request(frame.body.into_bytes()).map_err(Fault::from)?;
    match message.request().map_err(Fault::from)? {
        DummyRequest::Attach { attachment } => Ok((id, attachment)),
        _ => Err(Fault::Protocol("the first request must be to attach".to_owned()).into()),
    }
}

fn attach_new(dummies: &AttachedDummies, pid: Option<i32>) -> Result<Arc<AttachedDummy>, Refusal> {
    let failed = |code, message: &str| Refusal { code, message: message.to_owned() };
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|_| failed(ErrorCode::InternalError, "the system gives no random numbers"))?;
    let dummy = Arc::new(AttachedDummy::new(u128::from_le_bytes(id), pid));
    let mut attached = dummies.lock();
    if attached.len() >= MAX_DUMMIES {
        return Err(failed(ErrorCode::NoAvailableHandle, "there are too many dummy clients"));
    }
    attached.insert(dummy.id, Arc::clone(&dummy));
    Ok(dummy)
}

/// Answers calls until the connection ends. Returns why it ended.
fn answer_calls(
    dummies: &AttachedDummies,
    connection: &mut Connection,
    dummy: &AttachedDummy,
    watched: Option<&OwnedFd>,
) -> CallFault {
    loop {
        let Err(failure) = answer_one(dummies, connection, dummy, watched) else { continue };
        if let Fault::Protocol(message) = &failure.fault {
            let (code, message) = (ErrorCode::InvalidParams, message.clone());
            refuse(connection, &Refusal { code, message });
        }
        return failure;
    }
}

fn answer_one(
    dummies: &AttachedDummies,
    connection: &mut Connection,
    dummy: &AttachedDummy,
    watched: Option<&OwnedFd>,
) -> Result<(), CallFault> {
    wait(connection, watched)?;
    let frame = connection.receive(&[Kind::DummyRequest])?;
    let id = frame.header.request_id;
    let message = decode_dummy_request(frame.body.into_bytes()).map_err(Fault::from)?;
    let request = message.request().map_err(Fault::from)?;
    let memory = connection.take_descriptors();
    let permit = match request {
        // These are fast, and must not wait for other calls.
        DummyRequest::ShareMemory { .. }
        | DummyRequest::UnshareMemory { .. }
        | DummyRequest::Health => None,
        _ => Some(dummies.calls.take()),
    };
    let reply = serve::answer(&dummies.store, dummy, &request, memory);
    drop(permit);
    let reply = reply.map_err(|malformed| Fault::Protocol(malformed.to_string()))?;
    connection.send(|out| encode_dummy_reply(out, id, &reply))
}

/// Waits for a call, or for the end of the dummy's process: processes that were forked from it may keep its sockets
/// open.
fn wait(connection: &Connection, watched: Option<&OwnedFd>) -> Result<(), CallFault> {
    let read = Interest { read: true, write: false };
    loop {
        let mut sockets = vec![(connection.stream().as_fd(), read)];
        sockets.extend(watched.map(|process| (process.as_fd(), read)));
        poll_sockets(&mut sockets, Duration::MAX).map_err(Fault::Io)?;
        if sockets[0].1.read {
            return Ok(());
        }
        if sockets.get(1).is_some_and(|(_, ready)| ready.read) {
            let fault = Fault::Io(std::io::ErrorKind::UnexpectedEof.into());
            return Err(CallFault { fault, progress: CallProgress::Closed });
        }
    }
}

/// A descriptor that becomes readable when a process has ended; `None` if the system has none.
fn watch(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it is there");
        let watched = watch(child.id().cast_signed()).expect("the system has this");
        let ready = |timeout| {
            let mut sockets = [(watched.as_fd(), Interest { read: true, write: false })];
            poll_sockets(&mut sockets, timeout).expect("it can be waited for");
            sockets[0].1.read
        };
        assert!(!ready(Duration::ZERO), "it waits for input");
        child.kill().expect("it runs");
        assert!(ready(Duration::from_secs(20)));
        child.wait().expect("it has ended");
        assert!(watch(0).is_none());
    }
}
