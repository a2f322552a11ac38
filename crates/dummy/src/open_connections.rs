use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::Private;

/// All open connections of dummies, so that they can be closed from outside.
#[derive(Debug, Default)]
pub(super) struct OpenConnections(Mutex<OpenSockets>);

#[derive(Debug, Default)]
struct OpenSockets {
    next: u64,
    closing: bool,
    /// The socket, and the attachment that it is of once that is known.
    sockets: BTreeMap<u64, (Arc<Private<TcpStream>>, Option<u128>)>,
}

/// One of them; forgotten when dropped.
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

    /// Closes all connections of an attachment at once.
    pub(super) fn cut_off(&self, attachment: u128) {
        let state = self.lock();
        for (socket, _) in state.sockets.values().filter(|(_, of)| *of == Some(attachment)) {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Lets every connection send its answer and then end; none begins any more.
    pub(super) fn close_all(&self) {
        let mut state = self.lock();
        state.closing = true;
        for (socket, _) in state.sockets.values() {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenSockets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration<'_> {
    /// Says which attachment the connection is of; false if there is no room for it, or all are being closed.
    pub(super) fn belongs_to(&self, attachment: u128, most: usize) -> bool {
        let mut state = self.connections.lock();
        let taken = state.sockets.values().filter(|(_, of)| *of == Some(attachment)).count();
        if taken >= most || state.closing {
            return false;
        }
        if let Some((_, of)) = state.sockets.get_mut(&self.number) {
            *of = Some(attachment);
        }
        true
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.connections.lock().sockets.remove(&self.number);
    }
}
