//! The masters of a pool: a list of addresses, of which one leads, or a coordinator that names the leader.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mooncake_ha::{Coordinator, epoch_of_now};
use mooncake_memory::{Private, Resolver};
use mooncake_types::{Epoch, LogLimiter, SharedDirectory};

use super::dial_error::{DialError, Incredible};
use crate::address::MasterEndpoint;

/// Least time between two requests to the coordinator. Calls in between use its last answer.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

/// The masters of one store, shared by all its connections to them.
#[derive(Debug)]
pub(crate) struct Masters {
    source: MasterSource,
    open: Mutex<OpenConnections>,
    resolver: Resolver,
}

#[derive(Debug)]
enum MasterSource {
    Listed(Vec<MasterEndpoint>),
    Elected(Election),
}

/// The open connections, and what masters said on them.
#[derive(Debug, Default)]
struct OpenConnections {
    /// The highest epoch that a master named, or that the node's memory remembers; zero before the first.
    believed: Epoch,
    /// The highest epoch of a master that was connected.
    epoch: Epoch,
    /// Each connection, with the address of its master.
    connections: Vec<(String, Weak<Private<TcpStream>>)>,
    /// The shared directory, as the master named it that was connected last.
    shared_directory: Option<SharedDirectory>,
}

/// Finds the leader through a coordinator.
#[derive(Debug)]
pub(super) struct Election {
    coordinator: Coordinator,
    /// The coordinator's address, for messages.
    name: String,
    /// Whether leaders must be at local sockets; otherwise they must be on the network.
    only_this_host: bool,
    found: Mutex<KnownLeader>,
}

#[derive(Debug, Default)]
struct KnownLeader {
    leader: Option<MasterEndpoint>,
    /// Whether it could not be reached since it was found.
    is_doubted: bool,
    /// When the coordinator was last asked.
    asked: Option<Instant>,
}

impl Masters {
    /// Masters that are tried in turn.
    pub(crate) fn listed(addresses: Vec<MasterEndpoint>) -> Masters {
        Self::of_source(MasterSource::Listed(addresses))
    }

    /// The leader that this coordinator names. `name` is the coordinator's address. With `only_this_host` the leader
    /// must be at a local socket.
    pub(crate) fn elected(coordinator: Coordinator, name: String, only_this_host: bool) -> Masters {
        let election = Election { coordinator, name, only_this_host, found: Mutex::default() };
        Self::of_source(MasterSource::Elected(election))
    }

    fn of_source(source: MasterSource) -> Masters {
        Masters { source, open: Mutex::default(), resolver: Resolver::default() }
    }

    /// Resolves the addresses of masters.
    pub(super) fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// How many addresses there are to try.
    pub(crate) fn count(&self) -> usize {
        match &self.source {
            MasterSource::Listed(addresses) => addresses.len(),
            MasterSource::Elected(_) => 1,
        }
    }

    /// Whether another master may take over from the leader.
    pub(crate) fn are_several(&self) -> bool {
        match &self.source {
            MasterSource::Listed(addresses) => addresses.len() > 1,
            MasterSource::Elected(_) => true,
        }
    }

    /// The address with this index, or the election that finds the leader.
    pub(super) fn at(&self, address: usize) -> Result<&MasterEndpoint, &Election> {
        match &self.source {
            MasterSource::Listed(addresses) => Ok(&addresses[address]),
            MasterSource::Elected(election) => Err(election),
        }
    }

    /// Notes that the master did not answer. The next attempt looks the leader up again.
    pub(crate) fn doubt(&self) {
        if let MasterSource::Elected(election) = &self.source {
            election.lock().is_doubted = true;
        }
    }

    /// Ends the calls that wait for the master, since it does not answer any more.
    pub(crate) fn abort_calls(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, stream) in open.connections.drain(..) {
            // It may be closed already.
            let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        }
    }

    /// Notes an epoch that a master named, if it is credible. The first one always is, since nothing is known before.
    pub(crate) fn believe(&self, epoch: Epoch) -> Result<(), Incredible> {
        static REFUSED: LogLimiter<()> = LogLimiter::new();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let known = match open.believed {
            Epoch(0) => epoch,
            believed => believed.max(epoch_of_now()),
        };
        if epoch.is_credible(known) {
            open.believed = open.believed.max(epoch);
            return Ok(());
        }
        let error = Incredible { epoch, known };
        if let Some(further) = REFUSED.admit((), Instant::now()) {
            tracing::warn!(%error, further, "a master is refused");
        }
        Err(error)
    }

    /// Where nodes keep objects as files, if the master that was connected last wants that.
    pub(crate) fn shared_directory(&self) -> Option<SharedDirectory> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.shared_directory.clone()
    }

    /// Notes the shared directory that a master named when it was connected.
    pub(super) fn note_shared_directory(&self, directory: Option<SharedDirectory>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.shared_directory = directory;
    }

    /// Notes a connection to a master of this epoch. If the epoch is new, ends the connections to other masters, and
    /// with them the calls that wait there.
    pub(super) fn on_connected(
        &self,
        epoch: Epoch,
        master: String,
        stream: &Arc<Private<TcpStream>>,
    ) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.connections.retain(|(_, stream)| stream.strong_count() > 0);
        if epoch > open.epoch {
            open.epoch = epoch;
            let of_others = |(of, _): &mut (String, _)| *of != master;
            for (_, stream) in open.connections.extract_if(.., of_others) {
                // It may be closed already.
                let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
            }
        }
        open.connections.push((master, Arc::downgrade(stream)));
    }
}

impl Election {
    /// The known leader, if it is not doubted. Otherwise the leader in the coordinator's latest answer, and true.
    pub(super) fn leader(&self) -> Result<(MasterEndpoint, bool), DialError> {
        let mut found = self.lock();
        if let Some(leader) = found.leader.as_ref().filter(|_| !found.is_doubted) {
            return Ok((leader.clone(), false));
        }
        // Threads that wait for the lock meanwhile use this answer, and need not ask.
        if found.asked.is_none_or(|asked| asked.elapsed() >= BETWEEN_QUESTIONS) {
            let asked = self.coordinator.leader();
            found.asked = Some(Instant::now());
            let view = asked.map_err(|error| self.no_leader(error.to_string()))?;
            found.leader = view.map(|view| self.read(&view.address)).transpose()?;
        }
        found.is_doubted = true;
        let nobody = || self.no_leader("no master leads".to_owned());
        found.leader.clone().map(|leader| (leader, true)).ok_or_else(nobody)
    }

    /// Asks the coordinator whether another master leads under a higher epoch than this.
    pub(super) fn names_another(&self, epoch: Epoch) -> bool {
        // The lock is not held meanwhile, since other threads need the known leader.
        let Ok(Some(view)) = self.coordinator.leader() else { return false };
        if view.epoch <= epoch {
            return false;
        }
        if let Ok(leader) = self.read(&view.address) {
            let mut found = self.lock();
            (found.leader, found.asked) = (Some(leader), Some(Instant::now()));
        }
        true
    }

    /// Notes that this leader answered.
    pub(super) fn trust(&self, leader: &MasterEndpoint) {
        let mut found = self.lock();
        if found.leader.as_ref() == Some(leader) {
            found.is_doubted = false;
        }
    }

    /// Notes that this leader did not answer.
    pub(super) fn doubt(&self, leader: &MasterEndpoint) {
        let mut found = self.lock();
        if found.leader.as_ref() == Some(leader) {
            found.is_doubted = true;
        }
    }

    fn read(&self, address: &str) -> Result<MasterEndpoint, DialError> {
        let read = MasterEndpoint::of_leader(address, self.only_this_host);
        read.map_err(|reason| self.no_leader(reason))
    }

    fn no_leader(&self, reason: String) -> DialError {
        DialError::Unreachable { address: self.name.clone(), reason }
    }

    fn lock(&self) -> MutexGuard<'_, KnownLeader> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
