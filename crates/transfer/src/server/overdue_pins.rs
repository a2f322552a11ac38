//! Peers that did not give ranges back in time, as those that are stopped (SIGSTOP, a debugger). One thread waits for all
//! of them.
//!
//! No time limit frees the ranges. A stopped process may go on at any moment and read what it viewed, so its ranges stay
//! unchanged until its end of the connection is closed. It closes that end itself once it has copied the bytes, and the
//! kernel does when the process ends: in both cases nobody views the ranges any more. What is bounded is the cost: this
//! thread, for each connection the pins that it [may have](super::held_pins), and a quarter of each segment in all. A
//! writer of another process that sleeps in the middle of its copy is treated alike.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use mooncake_memory::{Interest, poll_sockets, spawn_unpinned};

use super::connection::{PeerConnection, STACK_BYTES};
use super::held_pins::HeldPins;
use super::registry::{ConnectionGuard, Registry, RunningThread};

/// How often the thread looks for further peers.
const TICK: Duration = Duration::from_millis(100);

/// A peer, and what it has to give back. The connection counts as open meanwhile.
pub(super) struct OverduePeer {
    pub(super) connection: Arc<PeerConnection>,
    pub(super) pins: HeldPins,
    pub(super) membership: ConnectionGuard,
}

/// The peers that are waited for.
#[derive(Default)]
pub(super) struct OverduePins(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    peers: Vec<OverduePeer>,
    has_thread: bool,
}

impl OverduePins {
    /// Waits for a peer. If the system has no thread for this, the caller waits.
    pub(super) fn add(self: &Arc<Self>, peer: OverduePeer, registry: &Arc<Registry>) {
        let mut waiting = self.lock();
        waiting.peers.push(peer);
        if std::mem::replace(&mut waiting.has_thread, true) {
            return;
        }
        drop(waiting);
        let (pins, running) = (Arc::clone(self), registry.begin_thread());
        let thread = Builder::new().name("data-overdue".into()).stack_size(STACK_BYTES);
        if let Err(error) = spawn_unpinned(thread, move || pins.run(running)) {
            tracing::warn!(%error, "no thread to wait for ranges that are to be given back");
            self.run(registry.begin_thread());
        }
    }

    /// Ends once there is no peer left. The thread counts until it ends, so `running` goes last.
    fn run(&self, running: RunningThread) {
        loop {
            let mut peers = std::mem::take(&mut self.lock().peers);
            let ended = ended(&peers);
            let mut ended = ended.iter();
            let gone = peers.extract_if(.., |_| *ended.next().unwrap_or(&false));
            for OverduePeer { connection, pins, membership } in gone {
                if !connection.is_severed() {
                    let bytes = pins.bytes;
                    tracing::info!(bytes, "a process of this host has given ranges back");
                }
                pins.end(&connection);
                drop(membership);
            }
            let mut waiting = self.lock();
            waiting.peers.append(&mut peers);
            if waiting.peers.is_empty() {
                waiting.has_thread = false;
                break;
            }
        }
        drop(running);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of these peers have closed their side, or were cut off. Looks for a tick if none has.
fn ended(peers: &[OverduePeer]) -> Vec<bool> {
    let watched = Interest { read: true, write: false };
    let sockets = peers.iter().map(|peer| (peer.connection.stream().as_fd(), watched));
    let mut sockets: Vec<_> = sockets.collect();
    if let Err(error) = poll_sockets(&mut sockets, TICK) {
        tracing::debug!(%error, "sockets cannot be watched now");
        std::thread::sleep(TICK);
        return vec![false; peers.len()];
    }
    let is_readable = sockets.iter().map(|(_, interest)| interest.read);
    is_readable.zip(peers).map(|(is_readable, peer)| is_readable && has_ended(peer)).collect()
}

/// Whether a peer whose socket can be read has closed its side. What it sends is dropped.
fn has_ended(peer: &OverduePeer) -> bool {
    match peer.connection.stream().read(&mut [0; 256]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
        }
    }
}
