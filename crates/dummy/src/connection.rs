//! Serves one connection of a dummy, on a thread of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use mooncake_connection::{CallFault, CallProgress, Connection, Fault};
use mooncake_memory::{Interest, poll_sockets};
use mooncake_types::{DummyRequest, ErrorCode};
use mooncake_wire::{Kind, Refusal, decode_dummy_request, encode_dummy_reply, encode_refusal};

use super::attach::welcome;
use super::attached_dummies::AttachedDummies;
use super::attached_dummy::AttachedDummy;
use super::serve;

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
            refuse(connection, &Refusal::new(ErrorCode::InvalidParams, message));
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
    // Held until the call has ended, so that its memory stays mapped. A dummy that was detached meanwhile, as when
    // this server stops, gets no answer: the end of the connection says it.
    let regions = dummy.regions().ok_or_else(detached)?;
    let reply = serve::answer(&dummies.store, dummy, &regions, &request, memory);
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
            return Err(detached());
        }
    }
}

/// The end of a connection whose dummy has ended, or was sent away.
fn detached() -> CallFault {
    let fault = Fault::Io(std::io::ErrorKind::UnexpectedEof.into());
    CallFault { fault, progress: CallProgress::Closed }
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
