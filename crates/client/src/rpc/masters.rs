//! Where the master is. Several addresses may be given, of which one leads; or a coordinator that knows the leader.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mooncake_ha::{Coordinator, epoch_of_now};
use mooncake_memory::{Private, Resolver};
use mooncake_types::{Epoch, LogLimiter, SharedDirectory};

use super::dial_error::{DialError, Incredible};
use crate::address::MasterEndpoint;

/// Time between two questions to the coordinator. Calls in between get its last answer.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(100);

/// The masters of one store, shared by all that connect to them.
#[derive(Debug)]
pub(crate) struct Masters {
    source: MasterSource,
    open: Mutex<Open>,
    resolver: Resolver,
}

#[derive(Debug)]
enum MasterSource {
    Listed(Vec<MasterEndpoint>),
    Elected(Election),
}

/// The connections that stand, and what masters said on them.
#[derive(Debug, Default)]
struct Open {
    /// The highest epoch that a master named, or that the node's memory remembers; zero before the first.
    believed: Epoch,
    /// The highest epoch of a master that was connected to.
    epoch: Epoch,
    /// Each with the address of its master.
    connections: Vec<(String, Weak<Private<TcpStream>>)>,
    /// What the last master that was connected to said.
    shared_directory: Option<SharedDirectory>,
}

/// A leader that is looked up.
#[derive(Debug)]
pub(super) struct Election {
    coordinator: Coordinator,
    /// The coordinator's address, for messages.
    name: String,
    /// Whether leaders are reached by local sockets only, or by the network only.
    only_this_host: bool,
    found: Mutex<KnownLeader>,
}

#[derive(Debug, Default)]
struct KnownLeader {
    leader: Option<MasterEndpoint>,
    /// It could not be reached since.
    is_doubted: bool,
    asked: Option<Instant>,
}

impl Masters {
    /// Masters that are tried in turn.
    pub(crate) fn listed(addresses: Vec<MasterEndpoint>) -> Masters {
        Self::of_source(MasterSource::Listed(addresses))
    }

    /// The master that this coordinator names as the leader; `name` is the coordinator's address. With `only_this_host` the
    /// leader must be reached by a local socket.
    pub(crate) fn elected(coordinator: Coordinator, name: String, only_this_host: bool) -> Masters {
        let election = Election { coordinator, name, only_this_host, found: Mutex::default() };
        Self::of_source(MasterSource::Elected(election))
    }

    fn of_source(source: MasterSource) -> Masters {
        Masters { source, open: Mutex::default(), resolver: Resolver::default() }
    }

    /// What finds the addresses of masters.
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

    /// Whether another master may take over from the one that leads.
    pub(crate) fn are_several(&self) -> bool {
        match &self.source {
            MasterSource::Listed(addresses) => addresses.len() > 1,
            MasterSource::Elected(_) => true,
        }
    }

    /// The address of this number, or the election that finds it.
    pub(super) fn at(&self, address: usize) -> Result<&MasterEndpoint, &Election> {
        match &self.source {
            MasterSource::Listed(addresses) => Ok(&addresses[address]),
            MasterSource::Elected(election) => Err(election),
        }
    }

    /// The master did not answer: whether it still leads is to be looked up.
    pub(crate) fn doubt(&self) {
        if let MasterSource::Elected(election) = &self.source {
            election.lock().is_doubted = true;
        }
    }

    /// The master does not answer any more: ends the calls that wait for it.
    pub(crate) fn abort_calls(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, stream) in open.connections.drain(..) {
            // It may be closed already.
            let _ = stream.upgrade().map(|stream| stream.shutdown(Shutdown::Both));
        }
    }

    /// Takes note of an epoch that a master named. The first is believed, since nothing is known.
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

    /// Where nodes keep objects as files, if the last master wants that.
    pub(crate) fn shared_directory(&self) -> Option<SharedDirectory> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.shared_directory.clone()
    }

    /// A master said this when it was connected to.
    pub(super) fn note_shared_directory(&self, directory: Option<SharedDirectory>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.shared_directory = directory;
    }

    /// A connection to a master of this epoch was made. If the epoch is new, ends the connections to other masters, and with
    /// them the calls that wait there.
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
    /// The leader that was found before, if it is not doubted; else the one that the coordinator names, and whether it was
    /// asked just now.
    pub(super) fn leader(&self) -> Result<(MasterEndpoint, bool), DialError> {
        let mut found = self.lock();
        if let Some(leader) = found.leader.as_ref().filter(|_| !found.is_doubted) {
            return Ok((leader.clone(), false));
        }
        // Other threads wait for the lock meanwhile, and need not ask then.
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

    /// Asks whether another leads under a higher epoch than this.
    pub(super) fn names_another(&self, epoch: Epoch) -> bool {
        // Nobody waits for this meanwhile: others have to know whom to ask.
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

    /// This leader answered.
    pub(super) fn trust(&self, leader: &MasterEndpoint) {
        let mut found = self.lock();
        if found.leader.as_ref() == Some(leader) {
            found.is_doubted = false;
        }
    }

    /// This leader did not answer.
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
