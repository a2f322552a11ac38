//! The side that reads and writes the memory of peers.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_memory::HeldMemory;

use crate::address::Address;
use crate::descriptor::RemoteMemory;
use crate::domain::Domain;
use crate::error::{ConnectError, OpenError, TransferError};
use crate::flight::{Flight, Flights, Progress};
use crate::port::{Direction, Port, Request, Side, Ways};
use crate::registration::LocalPieces;
use crate::wait::{Bell, wait_for_any};

/// Most requests of a batch. Those that find no room wait, so this only bounds the list.
pub const MAX_BATCH: usize = 1 << 20;

/// A part that is longer goes to a peer with several ways in slices, by all of them.
const STRIPED_BYTES: usize = 1 << 20;

/// Time for which a thread polls before it waits for a descriptor.
const SPIN: Duration = Duration::from_micros(50);
/// Time for which it polls before it naps, if a provider has nothing to wait for.
const LONG_SPIN: Duration = Duration::from_millis(1);
/// Longest sleep.
const SLEEP: Duration = Duration::from_millis(5);
/// Sleep if a provider has nothing to wait for.
const NAP: Duration = Duration::from_micros(20);

/// An endpoint that reads and writes the memory of peers.
///
/// It is what a deadline closes: if a peer does not answer, transfers of the same endpoint with other peers fail, too.
/// A process that serves many peers has several.
pub struct Initiator {
    shared: Arc<Shared>,
}

/// A peer of an initiator. Forgotten on drop, once nothing to it is in flight.
pub struct Peer {
    shared: Arc<Shared>,
    number: u64,
    address: Address,
    /// Whether requests may go by several ways, so that long parts are cut for them.
    has_ways: bool,
}

/// A part of a batch.
#[derive(Clone, Debug)]
pub struct Part<'r> {
    /// Local memory.
    pub local: HeldMemory,
    /// The peer's memory.
    pub remote: &'r RemoteMemory,
    /// First byte there.
    pub offset: u64,
}

/// Reads or writes that were submitted. Some thread must wait for it: that moves all batches of the initiator on.
///
/// If it is dropped before it has ended, the initiator is closed, so that the local memory can be used again.
#[must_use]
pub struct Batch {
    shared: Arc<Shared>,
    number: u64,
    submitted: Instant,
    has_ended: bool,
}

struct Shared {
    domain: Arc<Domain>,
    own: Address,
    flights: Mutex<Flights>,
    /// Signalled when something has moved.
    moved: Condvar,
    /// The same, for the thread that waits for the port's descriptor.
    bell: Bell,
}

impl Initiator {
    /// Opens an endpoint.
    ///
    /// # Errors
    /// The provider refuses, or the process was forked.
    pub fn open(domain: &Arc<Domain>) -> Result<Initiator, OpenError> {
        let port = domain.open_port(Side::Initiator)?;
        let (domain, own) = (Arc::clone(domain), port.own().clone());
        let bell = Bell::new().map_err(|error| OpenError::NoDescriptor { kind: error.kind() })?;
        let (flights, moved) =
            (Mutex::new(Flights::new(port, domain.limits.requests)), Condvar::new());
        Ok(Initiator { shared: Arc::new(Shared { domain, own, flights, moved, bell }) })
    }

    /// The address from which peers see requests.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.shared.own
    }

    /// Names a peer. Whether it can be reached shows at the first transfer.
    ///
    /// # Errors
    /// The address is none of this provider's, the initiator is closed, or the process was forked.
    pub fn connect(&self, address: &Address) -> Result<Peer, ConnectError> {
        let shared = &self.shared;
        if shared.domain.is_forked() {
            return Err(ConnectError::Forked);
        }
        if shared.domain.device().joins_in_pairs() || !address.fits(&shared.own) {
            return Err(shared.unfit(address));
        }
        let mut flights = shared.lock();
        let most = shared.domain.device().max_peers();
        if flights.named_peers() >= most {
            return Err(ConnectError::TooMany { most });
        }
        let port = flights.port().ok_or(ConnectError::Closed)?;
        let failed = |error| ConnectError::Call { peer: address.to_string(), error };
        let number = port.insert(address).map_err(failed)?;
        let number = flights.add_peer(number, address.to_string());
        drop(flights);
        let (shared, address) = (Arc::clone(shared), address.clone());
        Ok(Peer { shared, number, address, has_ways: false })
    }

    /// Makes the ends of a connection to a target with this address, on a device that
    /// [joins ends in pairs](crate::Device::joins_in_pairs): as many as the side with more NICs has. `via` is the address
    /// of this host by which the peer is reached otherwise, if it is known.
    ///
    /// # Errors
    /// The provider refuses or needs no connections, the initiator is closed, or the process was forked.
    pub fn prepare(&self, target: &Address, via: Option<IpAddr>) -> Result<Joining, ConnectError> {
        let shared = &self.shared;
        if shared.domain.is_forked() {
            return Err(ConnectError::Forked);
        }
        if target.format != shared.own.format {
            return Err(shared.unfit(target));
        }
        let mut flights = shared.lock();
        let port = flights.port().ok_or(ConnectError::Closed)?;
        let pairs = port.pairs().ok_or_else(|| shared.unfit(&shared.own))?;
        let failed = |error| ConnectError::Call { peer: "a peer".to_owned(), error };
        let (end, own) = pairs.prepare(target, via).map_err(failed)?;
        let number = flights.add_peer(end, "a peer".to_owned());
        drop(flights);
        let address = shared.own.clone();
        Ok(Joining {
            peer: Peer { shared: Arc::clone(shared), number, address, has_ways: false },
            end,
            own,
        })
    }

    /// Whether it was closed: by a deadline that passed, or by an error of the provider. Then a new one is needed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.lock().port().is_none()
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Initiator({})", self.shared.own)
    }
}

impl Drop for Initiator {
    fn drop(&mut self) {
        if !self.shared.domain.is_forked() {
            let mut flights = self.shared.lock();
            flights.close("it is no longer used".to_owned());
            self.shared.tell(flights);
        }
    }
}

/// One end of a connection, which the peer has to join. Given up on drop.
#[derive(Debug)]
pub struct Joining {
    peer: Peer,
    end: u64,
    own: Address,
}

impl Joining {
    /// What to tell the peer, for [`crate::Target::admit`].
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.own
    }

    /// Connects it with the end that the peer has made for it.
    ///
    /// # Errors
    /// The address is none of this provider's, the provider refuses, the initiator is closed, or the process was forked.
    pub fn join(self, address: &Address) -> Result<Peer, ConnectError> {
        let Joining { mut peer, end, own } = self;
        let shared = Arc::clone(&peer.shared);
        if shared.domain.is_forked() {
            return Err(ConnectError::Forked);
        }
        if !address.fits(&own) {
            return Err(shared.unfit(address));
        }
        let mut flights = shared.lock();
        let port = flights.port().ok_or(ConnectError::Closed)?;
        let pairs = port.pairs().ok_or_else(|| shared.unfit(address))?;
        let failed = |error| ConnectError::Call { peer: address.to_string(), error };
        pairs.join(end, address).map_err(failed)?;
        peer.has_ways = pairs.ways(end).is_some_and(|ways| ways.open > 1);
        flights.name_peer(peer.number, address.to_string());
        drop(flights);
        peer.address = address.clone();
        Ok(peer)
    }
}

impl Peer {
    /// The peer's address.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether ways to the peer have broken, so that requests went by others. What the broken ones had under way may still
    /// be under way to the peer.
    #[must_use]
    pub fn has_lost_ways(&self) -> bool {
        self.ways().lost > 0
    }

    /// Whether the peer would be reached better if it were connected anew: ways have broken, or NICs work that did not.
    #[must_use]
    pub fn can_be_better(&self) -> bool {
        self.ways().can_be_better
    }

    fn ways(&self) -> Ways {
        if self.shared.domain.is_forked() {
            return Ways::default();
        }
        self.shared.lock().ways_of(self.number)
    }

    /// Submits reads or writes. They are carried out in any order. Writes have ended when their bytes are in the peer's
    /// memory.
    ///
    /// # Errors
    /// Nothing was submitted.
    pub fn submit(&self, direction: Direction, parts: &[Part<'_>]) -> Result<Batch, TransferError> {
        let shared = &self.shared;
        if shared.domain.is_forked() {
            return Err(TransferError::Forked);
        }
        let mut requests = Vec::with_capacity(parts.len());
        for part in parts {
            shared.plan(part, self.has_ways, &mut requests)?;
        }
        let memory = parts.iter().map(|part| part.local.clone()).collect();
        let flight = Flight::new(self.number, direction, requests, memory);
        let submitted = Instant::now();
        let number = shared.lock().add(flight)?;
        Ok(Batch { shared: Arc::clone(shared), number, submitted, has_ended: false })
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.address)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !self.shared.domain.is_forked() {
            self.shared.lock().remove_peer(self.number);
        }
    }
}

impl Batch {
    /// Waits until all requests have ended.
    ///
    /// # Errors
    /// A request failed, the initiator was closed, or the deadline passed: then the initiator is closed if requests were
    /// in flight, and the local memory is touched no more in any case.
    pub fn wait(mut self, deadline: Instant) -> Result<(), TransferError> {
        if self.shared.domain.is_forked() {
            return Err(TransferError::Forked);
        }
        self.has_ended = true;
        let mut still_since = Instant::now();
        loop {
            let mut flights = self.shared.lock();
            match flights.look(self.number) {
                Progress::Ended(result) => {
                    self.shared.tell(flights);
                    return result;
                }
                Progress::Moved => {
                    self.shared.tell(flights);
                    still_since = Instant::now();
                    continue;
                }
                Progress::Still => {}
            }
            let now = Instant::now();
            if now >= deadline {
                let error = self.shared.too_late(&mut flights, self.number, now - self.submitted);
                self.shared.tell(flights);
                return Err(error);
            }
            let has_descriptor = flights.port().is_some_and(Port::has_descriptor);
            if now - still_since < if has_descriptor { SPIN } else { LONG_SPIN } {
                drop(flights);
                thread::yield_now();
            } else {
                // What arrives is often a part of a request, and the rest follows.
                if self.shared.sleep(flights, (deadline - now).min(SLEEP)) {
                    still_since = Instant::now();
                }
            }
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} of {})", self.number, self.shared.own)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.has_ended || self.shared.domain.is_forked() {
            return;
        }
        let mut flights = self.shared.lock();
        flights.give_up(self.number, |peer| format!("a batch to {peer} was given up"));
        self.shared.tell(flights);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Flights> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unfit(&self, address: &Address) -> ConnectError {
        ConnectError::Unfit { peer: address.to_string(), own: self.own.to_string() }
    }

    /// Tells the other threads that something has moved.
    fn tell(&self, flights: MutexGuard<'_, Flights>) {
        let has_watcher = flights.has_watcher;
        drop(flights);
        self.moved.notify_all();
        if has_watcher {
            self.bell.ring();
        }
    }

    /// Cuts a part into requests: none crosses a piece of either side's registration.
    fn plan(
        &self,
        part: &Part<'_>,
        has_ways: bool,
        requests: &mut Vec<Request>,
    ) -> Result<(), TransferError> {
        let Part { local, remote, offset } = part;
        remote.check(*offset, local.len() as u64)?;
        let limits = &self.domain.limits;
        let longest = match has_ways && local.len() > STRIPED_BYTES {
            true => limits.request_bytes.min(self.domain.slice_bytes),
            false => limits.request_bytes,
        };
        let is_of_device = matches!(local, HeldMemory::Device(_));
        let registered = match self.domain.device().mr_mode.local || is_of_device {
            true => Some(LocalPieces::of(&self.domain, local)?),
            false => None,
        };
        let (first, start) = (first_byte(local), local.region_start());
        let mut done = 0;
        while done < local.len() {
            let (address, left) = (first.wrapping_add(done), local.len() - done);
            let (descriptor, most) = match registered {
                Some(pieces) => pieces.at(address.addr() - start),
                None => (std::ptr::null_mut(), usize::MAX),
            };
            let most = (left.min(most) as u64).min(longest);
            let range = remote.range(offset + done as u64, most);
            let len = range.len as usize;
            if requests.len() == MAX_BATCH {
                return Err(TransferError::TooMany { most: MAX_BATCH });
            }
            let (remote, keys) = (range.address, range.keys);
            let local = address;
            requests.push(Request { local, is_of_device, len, descriptor, remote, keys });
            done += len;
        }
        Ok(())
    }

    /// Gives up a batch whose deadline has passed.
    fn too_late(&self, flights: &mut Flights, batch: u64, waited: Duration) -> TransferError {
        let (peer, own) = (flights.peer_of(batch), self.own.to_string());
        let late = |peer: &str| format!("{peer} did not answer within {waited:?}");
        flights.give_up(batch, late);
        let device = self.domain.device();
        let device = format!("{} on {}", device.provider, device.name);
        TransferError::DeadlinePassed { peer, own, device, waited }
    }

    /// Sleeps until something may have moved. One thread waits for the port's descriptor, the others for that thread.
    /// Returns whether the descriptor told of something.
    fn sleep(&self, mut flights: MutexGuard<'_, Flights>, time: Duration) -> bool {
        if flights.has_watcher {
            drop(self.moved.wait_timeout(flights, time).unwrap_or_else(PoisonError::into_inner));
            return false;
        }
        let Some(port) = flights.port() else { return false };
        let quiet = port.quiet();
        if quiet.is_none() && port.has_descriptor() {
            return false;
        }
        flights.has_watcher = true;
        drop(flights);
        let told = match quiet {
            Some(descriptor) => wait_for_any(&[descriptor, self.bell.descriptor()], time),
            None => wait_for_any(&[], time.min(NAP)),
        };
        self.bell.silence();
        self.lock().has_watcher = false;
        self.moved.notify_all();
        told
    }
}

/// The address of the first byte, in the host or in a device.
fn first_byte(memory: &HeldMemory) -> *mut u8 {
    match memory {
        HeldMemory::Host(slice) => slice.raw().as_ptr(),
        HeldMemory::Device(slice) => std::ptr::without_provenance_mut(slice.address()),
    }
}
