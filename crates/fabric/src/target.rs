//! The side that lends memory: peers read and write it, and no thread of this process takes part, unless the provider
//! needs one.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_memory::HeldSlice;

use crate::address::Address;
use crate::descriptor::RemoteMemory;
use crate::domain::Domain;
use crate::error::{ConnectError, OpenError, RegisterError};
use crate::port::{Outcome, Port, Side};
use crate::registration::{Access, Pieces, expose};

/// An endpoint through which peers reach memory. Closed on drop: then no peer reaches any of it, whatever it still has
/// under way.
pub struct Target {
    served: Arc<ServedPort>,
}

/// Memory that peers can reach by its key. On drop the key becomes invalid.
pub struct Exposed {
    // The registration goes first, then what keeps the memory mapped.
    number: u64,
    served: Arc<ServedPort>,
    remote: RemoteMemory,
    memory: HeldSlice,
}

/// A target's port, and all that is registered for it.
pub(crate) struct ServedPort {
    domain: Arc<Domain>,
    own: Address,
    state: Mutex<TargetState>,
}

struct TargetState {
    // The registrations go first: a provider may tie them to the port.
    exposed: BTreeMap<u64, Pieces>,
    port: Option<Box<dyn Port>>,
    next: u64,
}

/// What a thread may do after it has let a port work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait until this is readable.
    Wait(RawFd),
    /// Go on at once.
    Again,
    /// Go on soon: there is nothing to wait for.
    Nap,
    /// Nothing: the port is closed.
    Closed,
}

impl Target {
    /// Opens an endpoint.
    ///
    /// # Errors
    /// The provider refuses, or the process was forked.
    pub fn open(domain: &Arc<Domain>) -> Result<Target, OpenError> {
        let port = domain.open_port(Side::Target)?;
        let own = port.own().clone();
        let state = TargetState { exposed: BTreeMap::new(), port: Some(port), next: 0 };
        let served =
            Arc::new(ServedPort { domain: Arc::clone(domain), own, state: Mutex::new(state) });
        if domain.device().needs_progress {
            domain.progress.serve(Arc::clone(&served));
        }
        Ok(Target { served })
    }

    /// The address for peers.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.served.own
    }

    /// Closes the endpoint before it is dropped. Nothing that peers have under way touches memory any more, so what was
    /// exposed may be unmapped.
    pub fn close(&self) {
        // The parent has what a child got a copy of, and its threads may have held the locks.
        if self.served.domain.is_forked() {
            return;
        }
        self.served.domain.progress.leave(&self.served);
        // Waits for the thread that lets the port work.
        let mut state = self.served.state();
        state.exposed.clear();
        state.port = None;
    }

    /// Whether it was closed, also by an error of the provider.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        !self.served.domain.is_forked() && self.served.state().port.is_none()
    }

    /// Makes the ends for a peer that has [made its own](crate::Initiator::prepare), on a device that joins ends in pairs.
    /// The peer reaches the memory of this target, by keys that it knows, until the target is dropped. `via` is the address
    /// of this host by which the peer is reached otherwise, if it is known.
    ///
    /// # Errors
    /// The address is none of this provider's, the provider refuses, the target is closed, or the process was forked.
    pub fn admit(&self, peer: &Address, via: Option<IpAddr>) -> Result<Address, ConnectError> {
        let served = &self.served;
        if served.domain.is_forked() {
            return Err(ConnectError::Forked);
        }
        let state = served.state();
        let port = state.port.as_ref().ok_or(ConnectError::Closed)?;
        let unfit = || ConnectError::Unfit { peer: peer.to_string(), own: served.own.to_string() };
        let pairs = port.pairs().filter(|_| peer.fits(&served.own)).ok_or_else(unfit)?;
        let failed = |error| ConnectError::Call { peer: peer.to_string(), error };
        let (end, _) = pairs.prepare(peer, via).map_err(failed)?;
        pairs.join(end, peer).map_err(|error| {
            port.remove(end);
            failed(error)
        })
    }

    /// Lets peers that know the key reach memory.
    ///
    /// # Errors
    /// The provider refuses, the memory is too long, or the process was forked.
    pub fn expose(&self, memory: HeldSlice, access: Access) -> Result<Exposed, RegisterError> {
        let domain = &self.served.domain;
        let pieces = expose(domain, &memory, access)?;
        let bytes = memory.len() as u64;
        let mut state = self.served.state();
        let port = state.port.as_ref().ok_or(RegisterError::Closed)?;
        if domain.device().mr_mode.of_endpoint {
            let attached = pieces.attach(&**port);
            attached.map_err(|error| RegisterError::Call { bytes, error })?;
        }
        let described = pieces.described(domain, memory.raw());
        let remote = RemoteMemory::new(bytes, domain.limits.piece_bytes, described);
        let remote = remote.expect("pieces make up the memory that was registered");
        state.next += 1;
        let number = state.next;
        state.exposed.insert(number, pieces);
        drop(state);
        Ok(Exposed { number, served: Arc::clone(&self.served), remote, memory })
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.served.own)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.close();
    }
}

impl Exposed {
    /// What peers need to reach the memory.
    #[must_use]
    pub fn remote(&self) -> &RemoteMemory {
        &self.remote
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &HeldSlice {
        &self.memory
    }
}

impl fmt::Debug for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposed({} bytes at {})", self.remote.len(), self.served.own)
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        if self.served.domain.is_forked() {
            return;
        }
        self.served.state().exposed.remove(&self.number);
    }
}

impl ServedPort {
    fn state(&self) -> MutexGuard<'_, TargetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the provider work.
    pub(crate) fn turn(&self) -> Turn {
        let mut state = self.state();
        let Some(port) = &state.port else { return Turn::Closed };
        let mut completions = Vec::new();
        if let Err(error) = port.poll(&mut completions) {
            tracing::warn!(%error, address = %self.own, "a target is closed");
            state.exposed.clear();
            state.port = None;
            return Turn::Closed;
        }
        for completion in completions {
            if let Outcome::Failed(error) | Outcome::Lost(error) = completion.outcome {
                tracing::debug!(%error, address = %self.own, "a request of a peer failed");
            }
        }
        match port.quiet() {
            Some(descriptor) => Turn::Wait(descriptor),
            None if port.has_descriptor() => Turn::Again,
            None => Turn::Nap,
        }
    }
}
