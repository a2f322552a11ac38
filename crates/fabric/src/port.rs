//! What a provider must offer: it registers memory, and opens ports, which read and write the memory of peers. There
//! are two: libfabric ([`crate::libfabric`]) and libibverbs ([`crate::verbs`]).

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::sync::Arc;

use mooncake_memory::RawSlice;

use crate::abi::{Context, fid_ep};
use crate::address::Address;
use crate::call::CallError;
use crate::object::Object;
use crate::registration::Rights;

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
    pub(crate) local: *mut u8,
    pub(crate) len: usize,
    /// What the provider calls the registration of the local memory; null if it needs none.
    pub(crate) descriptor: *mut c_void,
    pub(crate) remote: u64,
    pub(crate) key: u64,
}

// SAFETY: the address is only passed to the library, on behalf of a batch that holds the memory.
unsafe impl Send for Request {}

/// Requests that have ended.
pub(crate) struct Completion {
    /// The context that they were posted with.
    pub(crate) context: *mut Context,
    pub(crate) result: Result<(), CallError>,
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

    fn open_port(self: Arc<Self>, side: Side) -> Result<Box<dyn Port>, CallError>;
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
    fn key(&self) -> u64;

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

/// A port whose peers are connected in pairs of ends.
pub(crate) trait Pairs {
    /// Makes one end of a connection. Returns its number, by which the peer is called, and its address. The end is gone
    /// when the peer is removed.
    fn prepare(&self) -> Result<(u64, Address), CallError>;

    /// Connects an end with that of the peer. The address fits.
    fn join(&self, end: u64, address: &Address) -> Result<(), CallError>;
}
