use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::Private;
use mooncake_types::ErrorCode;
use mooncake_wire::Refusal;

/// All open connections of dummies, so that other threads can close them.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<OpenSockets>);

#[derive(Debug, Default)]
struct OpenSockets {
    next: u64,
    closing: bool,
    /// Each socket, and its attachment once that is known.
    sockets: BTreeMap<u64, OpenSocket>,
}

type OpenSocket = (Arc<Private<TcpStream>>, Option<u128>);

/// One open connection; forgotten when dropped.
pub(super) struct Registration<'a> {
    number: u64,
    connections: &'a OpenConnections,
}

impl OpenConnections {
    pub(super) fn register(&self, socket: &Arc<Private<TcpStream>>) -> Registration<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.sockets.insert(number, (Arc::clone(socket), None));
        Registration { number, connections: self }
    }

    /// Lets every connection of an attachment answer the call under way, and ends it then. The dummy takes the end of
    /// a connection as proof that its memory is not written any more.
    pub(super) fn cut_off(&self, attachment: u128) {
        let state = self.lock();
        state.sockets.values().filter(|(_, of)| *of == Some(attachment)).for_each(end_after_answer);
    }

    /// Does the same to all connections, and lets no new ones begin.
    pub(super) fn close_all(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.sockets.values().for_each(end_after_answer);
    }

    fn lock(&self) -> MutexGuard<'_, OpenSockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_after_answer((socket, _): &OpenSocket) {
    // It may be closed already.
    let _ = socket.shutdown(Shutdown::Read);
}

impl Registration<'_> {
    /// Notes the attachment of the connection. Refused if that has `most` connections already, or all are being
    /// closed.
    pub(super) fn belongs_to(&self, attachment: u128, most: usize) -> Result<(), Refusal> {
        let mut state = self.connections.lock();
        if state.closing {
            return Err(Refusal::new(ErrorCode::RpcFail, "dummy clients are served no longer"));
        }
        let taken = state.sockets.values().filter(|(_, of)| *of == Some(attachment)).count();
        if taken >= most {
            let message = "a dummy client has too many connections";
            return Err(Refusal::new(ErrorCode::NoAvailableHandle, message));
        }
        if let Some((_, of)) = state.sockets.get_mut(&self.number) {
            *of = Some(attachment);
        }
        Ok(())
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.connections.lock().sockets.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_that_is_cut_off_ends_for_its_dummy_after_its_answer_only() {
        let (host, mut dummy) = UnixStream::pair().expect("a pair of sockets");
        let host: Arc<Private<TcpStream>> = Arc::new(Private::new(OwnedFd::from(host)).convert());
        let connections = OpenConnections::default();
        let registration = connections.register(&host);
        assert_eq!(registration.belongs_to(7, 1), Ok(()));
        connections.cut_off(7);
        assert_eq!((&**host).read(&mut [0]).expect("an end"), 0, "nothing more is asked");
        dummy.set_nonblocking(true).expect("a socket");
        let early = dummy.read(&mut [0]).expect_err("it has not ended");
        assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
        (&**host).write_all(b"answer").expect("it listens");
        drop((registration, host));
        let mut heard = String::new();
        dummy.read_to_string(&mut heard).expect("an end");
        assert_eq!(heard, "answer");
    }
}
