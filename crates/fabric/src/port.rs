//! What a provider must offer: it registers memory, and opens ports, which read and write the memory of peers. There
//! are two: libfabric ([`crate::libfabric`]) and libibverbs ([`crate::verbs`]).

use std::ffi::c_void;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use mooncake_memory::{DeviceRegion, RawSlice};

use crate::abi::{Context, fid_ep};
use crate::address::Address;
use crate::call::CallError;
use crate::device::{NicTrial, NicUse};
use crate::error::DeviceRefusal;
use crate::keys::Keys;
use crate::object::Object;
use crate::registration::{DevicePiece, Rights};

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the peer's memory to local memory.
    Read,
    /// From local memory to the peer's.
    Write,
}

/// A read or a write of adjoining bytes on both sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// In the host, or in a device.
    pub(crate) local: *mut u8,
    /// Whether the processor cannot read the local memory.
    pub(crate) is_of_device: bool,
    pub(crate) len: usize,
    /// What the provider calls the registration of the local memory; null if it needs none.
    pub(crate) descriptor: *mut c_void,
    pub(crate) remote: u64,
    pub(crate) keys: Keys,
}

// SAFETY: the address is only passed to the library, on behalf of a batch that holds the memory.
unsafe impl Send for Request {}

/// Requests that have ended.
pub(crate) struct Completion {
    /// The context that they were posted with.
    pub(crate) context: *mut Context,
    pub(crate) outcome: Outcome,
}

/// How requests have ended.
pub(crate) enum Outcome {
    Done,
    /// Some may have been carried out.
    Failed(CallError),
    /// The way by which they went has broken. They may go by another.
    Lost(CallError),
}

// SAFETY: the address is only compared with those of an endpoint's own places.
unsafe impl Send for Completion {}

/// A device that is open.
pub(crate) trait Provider: Send + Sync {
    /// Registers memory, which must stay mapped for as long as the registration lives.
    fn register(
        &self,
        memory: RawSlice<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, CallError>;

    /// How it registers memory of devices, if it takes any.
    fn devices(&self) -> Option<&dyn TakesDevices> {
        None
    }

    fn open_port(self: Arc<Self>, side: Side) -> Result<Box<dyn Port>, CallError>;

    /// What goes by each of its NICs, if it knows them.
    fn nics(&self) -> Vec<NicUse> {
        Vec::new()
    }
}

/// A provider that takes memory of devices, which their drivers let NICs access.
pub(crate) trait TakesDevices: Sync {
    /// Registers a piece.
    fn register(
        &self,
        piece: &DevicePiece<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, DeviceRefusal>;

    /// How each of its NICs would register memory.
    fn try_each(&self, memory: &DeviceRegion) -> Vec<NicTrial>;
}

/// What a port is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It submits requests.
    Initiator,
    /// It serves those of peers.
    Target,
}

/// Memory that a device knows.
pub(crate) trait Registered: Send + Sync {
    /// By which peers reach it.
    fn keys(&self) -> Keys;

    /// By which requests of this side name it.
    fn descriptor(&self) -> *mut c_void;

    /// Ties it to a port, where the provider asks for that.
    fn attach(&self, port: &dyn Port) -> Result<(), CallError> {
        let _ = port;
        Ok(())
    }
}

/// An endpoint that reads and writes the memory of peers, and through which peers reach memory of this process. When it
/// is dropped, nothing that was posted touches memory of this process any more, and no peer reaches any through it.
pub(crate) trait Port: Send {
    fn own(&self) -> &Address;

    /// The endpoint of libfabric, if it is one.
    fn endpoint(&self) -> Option<&Object<fid_ep>> {
        None
    }

    /// Names a peer, to which nothing has to be told. The address fits.
    fn insert(&self, address: &Address) -> Result<u64, CallError>;

    /// Forgets a peer, to whom no request is in flight.
    fn remove(&self, peer: u64);

    /// How ends of connections are made, if peers are connected in pairs. Then none is inserted.
    fn pairs(&self) -> Option<&dyn Pairs> {
        None
    }

    /// Posts the first of these requests, of which there is at least one, together. They complete once, with this
    /// context. Returns how many were posted: none if there is no room now.
    ///
    /// # Safety
    /// The local memory stays mapped, and the context is used for nothing else, until the requests have completed or
    /// the port was dropped.
    unsafe fn post(
        &self,
        direction: Direction,
        peer: u64,
        requests: &[Request],
        context: *mut Context,
    ) -> Result<usize, CallError>;

    /// Lets the provider work, and takes completions.
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<(), CallError>;

    /// The descriptor that is readable when there is work. A thread may wait for it only if this returns one.
    fn quiet(&self) -> Option<RawFd>;

    /// Whether threads can wait for this port at all.
    fn has_descriptor(&self) -> bool;
}

/// A port whose peers are connected in pairs of ends. A connection has an end at one or several NICs.
pub(crate) trait Pairs {
    /// Makes the ends of a connection to a target whose own address this is, or for a peer whose ends these are. Returns
    /// their number, by which the peer is called, and their address. The ends are gone when the peer is removed.
    fn prepare(&self, with: &Address, via: Via) -> Result<(u64, Address), CallError>;

    /// Connects the ends with those of the peer. The address fits. Returns the address of those that are connected: one at
    /// least.
    fn join(&self, ends: u64, address: &Address) -> Result<Address, CallError>;

    /// What has become of a peer's ends; `None` if there is no such peer.
    fn ways(&self, peer: u64) -> Option<Ways>;
}

/// The address of this host by which a peer is reached otherwise, if there is one: a GID of the same interface is taken.
pub(crate) type Via = Option<IpAddr>;

/// What has become of the ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    /// How many can be used.
    pub(crate) open: usize,
    /// How many have broken since they were made.
    pub(crate) lost: usize,
    /// Whether new ones would be better: some have broken, or are at other NICs than they would be by now.
    pub(crate) can_be_better: bool,
}
