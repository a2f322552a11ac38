//! NICs that are open together, as a provider: a peer is reached by all of them.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mooncake_memory::{DeviceRegion, RawSlice, numa_node_of};

use super::abi::*;
use super::address::EndAddress;
use super::call::{Owned, call_error, last_error};
use super::error::VerbsError;
use super::events::{Nics, Watch};
use super::nic::Nic;
use super::options::VerbsOptions;
use super::port::EndPort;
use super::{ETHERNET, INFINIBAND, PROVIDER};
use crate::address::Address;
use crate::call::CallError;
use crate::device::{Device, Link, MrMode, NicTrial, NicUse};
use crate::error::{DeviceRefusal, OpenError};
use crate::keys::{Keys, NicKeys};
use crate::port::{Port, Provider, Registered, Side, TakesDevices};
use crate::position::Position;
use crate::registration::{Access, DevicePiece, Rights};
use crate::verbs::address::FORMAT;

/// Most requests in flight at a port, at one NIC, as many times as a queue pair may have: several share the queue.
const QUEUE_PAIRS_PER_QUEUE: usize = 4;

/// NICs that are open. Ends, queues and registrations belong to one of them.
pub(crate) struct VerbsDevice {
    // Dropped in this order.
    _watch: Watch,
    pub(super) nics: Arc<Nics>,
    pub(super) options: Arc<VerbsOptions>,
    /// Most requests in flight at a port at one NIC, over all its ends.
    pub(super) requests: usize,
}

impl VerbsDevice {
    /// Opens all NICs that fit. `requests` are to be in flight at each.
    pub(crate) fn open(options: &VerbsOptions, requests: usize) -> Result<VerbsDevice, OpenError> {
        let found = options.find()?;
        let options = Arc::new(options.clone());
        let of_call = |error: CallError| OpenError::Verbs(VerbsError::Call(error));
        let open = |(place, nic)| Nic::open(nic, place, &options);
        let list: Result<Vec<Nic>, CallError> = found.into_iter().enumerate().map(open).collect();
        let nics = Arc::new(Nics::new(list.map_err(of_call)?));
        let most = nics.list.iter().map(|nic| nic.attributes.max_cqe).min();
        let most = usize::try_from(most.unwrap_or(0)).unwrap_or(0).max(1);
        let requests = QUEUE_PAIRS_PER_QUEUE * requests.max(options.max_wr as usize);
        let watch = Watch::start(&nics).map_err(|_| of_call(last_error("ibv_get_async_event")))?;
        Ok(VerbsDevice { _watch: watch, nics, options, requests: requests.min(most) })
    }

    /// The NICs as one device of this crate.
    pub(crate) fn device(&self) -> Device {
        let ports = self.nics.list.iter().map(|nic| (nic, nic.port()));
        let ports: Vec<_> = ports.collect();
        let names: Vec<&str> = ports.iter().map(|(nic, _)| nic.name.as_str()).collect();
        let each = ports.iter().map(|(nic, port)| {
            let gid = port.choose_gid(self.options.gid_index, None);
            let gid = gid.map_or_else(|reason| reason, |gid| format!("GID {gid}"));
            format!("{} port {}, {gid}", nic.name, port.number)
        });
        let link = Link {
            nic: each.collect::<Vec<_>>().join("; "),
            bits_per_second: ports.iter().map(|(_, port)| port.bits_per_second).sum(),
            is_up: Some(ports.iter().any(|(nic, _)| nic.is_up())),
            pci_address: None,
        };
        let longest = ports.iter().map(|(_, port)| port.max_request_bytes).min();
        let is_ethernet = ports.iter().any(|(_, port)| port.is_ethernet);
        Device {
            provider: PROVIDER.to_owned(),
            name: names.join(","),
            fabric: if is_ethernet { ETHERNET } else { INFINIBAND }.to_owned(),
            address_format: FORMAT,
            address: self.own_address().bytes,
            mr_mode: MrMode {
                local: true,
                virtual_addresses: true,
                allocated: true,
                provider_keys: true,
                of_endpoint: false,
            },
            key_bytes: 4,
            needs_progress: false,
            max_requests: self.options.max_wr as usize,
            max_request_bytes: longest.unwrap_or(0) as usize,
            link: Some(link),
        }
    }

    /// The addresses of all NICs, of no ends.
    pub(super) fn own_address(&self) -> Address {
        let each: Vec<EndAddress> = self.nics.list.iter().map(Nic::own_address).collect();
        EndAddress::to_address(&each)
    }

    /// Which NICs are nearest to memory; none if that makes no difference, or is not known.
    fn nearest(&self, place: impl FnOnce() -> Option<Position>) -> u8 {
        if self.nics.list.len() < 2 {
            return 0;
        }
        let Some(place) = place() else { return 0 };
        let nearest = place.nearest(self.nics.list.iter().map(|nic| &nic.position));
        if nearest.len() == self.nics.list.len() {
            return 0;
        }
        nearest.into_iter().fold(0, |mask, nic| mask | 1 << nic)
    }

    fn access(&self, rights: Rights) -> u32 {
        let relaxed = match self.options.relaxed_ordering {
            true => IBV_ACCESS_RELAXED_ORDERING,
            false => 0,
        };
        access_bits(rights) | relaxed
    }
}

#[cfg(not(feature = "testing"))]
fn node_of(memory: RawSlice<'_>) -> Option<u32> {
    numa_node_of(memory)
}

#[cfg(feature = "testing")]
fn node_of(memory: RawSlice<'_>) -> Option<u32> {
    crate::testing::pretended_node().unwrap_or_else(|| numa_node_of(memory))
}

impl Provider for VerbsDevice {
    fn register(
        &self,
        memory: RawSlice<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, CallError> {
        let access = self.access(rights);
        let (mut mrs, mut failure) = (Vec::new(), None);
        for nic in &self.nics.list {
            match nic.register(memory.as_ptr().cast(), memory.len(), access) {
                Ok(mr) => mrs.push(Some(mr)),
                // The next one meets the same limit.
                Err(error) if error.number == libc::ENOMEM => return Err(error),
                Err(error) => {
                    mrs.push(None);
                    failure = Some((nic, error));
                }
            }
        }
        match failure {
            Some((_, error)) if mrs.iter().all(Option::is_none) => return Err(error),
            Some((nic, error)) if !nic.is_dead() => {
                tracing::warn!(nic = %nic.name, %error, "a NIC does not take memory, which others do");
            }
            _ => {}
        }
        let near = self.nearest(|| node_of(memory).map(Position::of_node));
        Ok(Box::new(NicRegistrations::new(mrs, near)))
    }

    fn devices(&self) -> Option<&dyn TakesDevices> {
        Some(self)
    }

    fn open_port(self: Arc<Self>, side: Side) -> Result<Box<dyn Port>, CallError> {
        Ok(Box::new(EndPort::open(self, side)?))
    }

    fn nics(&self) -> Vec<NicUse> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let nics = self.nics.list.iter();
        nics.map(|nic| NicUse {
            name: nic.name.clone(),
            is_up: nic.is_up(),
            read_bytes: load(&nic.counts.read_bytes),
            written_bytes: load(&nic.counts.written_bytes),
            requests: load(&nic.counts.requests),
            lost_requests: load(&nic.counts.lost_requests),
        })
        .collect()
    }
}

impl TakesDevices for VerbsDevice {
    fn register(
        &self,
        piece: &DevicePiece<'_>,
        rights: Rights,
    ) -> Result<Box<dyn Registered>, DeviceRefusal> {
        let (mut mrs, mut refusal) = (Vec::new(), None);
        for nic in &self.nics.list {
            match nic.register_device(piece, self.access(rights)) {
                Ok((mr, _)) => mrs.push(Some(mr)),
                Err(error) => {
                    mrs.push(None);
                    refusal = Some((nic, error));
                }
            }
        }
        match refusal {
            Some((_, error)) if mrs.iter().all(Option::is_none) => return Err(error),
            Some((nic, error)) if !nic.is_dead() => {
                tracing::warn!(nic = %nic.name, %error, "a NIC does not take memory of a GPU, which others do");
            }
            _ => {}
        }
        let address = || piece.memory.access().pci_address();
        let near = self.nearest(|| Some(Position::of_pci(&self.options.sysfs, &address()?)));
        Ok(Box::new(NicRegistrations::new(mrs, near)))
    }

    fn try_each(&self, memory: &DeviceRegion) -> Vec<NicTrial> {
        self.nics.list.iter().map(|nic| nic.try_device(memory)).collect()
    }
}

/// A writer also reads what it has written: then the bytes are in memory.
fn access_bits(rights: Rights) -> u32 {
    match rights {
        Rights::Local => IBV_ACCESS_LOCAL_WRITE,
        Rights::Remote(Access::Read) => IBV_ACCESS_REMOTE_READ,
        Rights::Remote(Access::Write | Access::ReadWrite) => {
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
        }
    }
}

/// Memory that the NICs know.
struct NicRegistrations {
    _mrs: Vec<Option<Owned<Mr>>>,
    /// The keys of this side. Requests name them by their address, so they stay where they are.
    local: Box<NicKeys>,
    remote: Keys,
}

impl NicRegistrations {
    fn new(mrs: Vec<Option<Owned<Mr>>>, near: u8) -> NicRegistrations {
        // SAFETY: the objects live.
        let keys = |mr: &Owned<Mr>| unsafe { ((*mr.as_ptr()).lkey, (*mr.as_ptr()).rkey) };
        let each = || mrs.iter().map(|mr| mr.as_ref().map(keys));
        let local = NicKeys::new(each().map(|keys| Some(keys?.0)), near);
        let remote = NicKeys::new(each().map(|keys| Some(keys?.1)), near);
        let remote = match (remote.count(), remote.of(0)) {
            (1, Some(key)) => Keys::One(key.into()),
            _ => Keys::Each(remote),
        };
        NicRegistrations { _mrs: mrs, local: Box::new(local), remote }
    }
}

impl Registered for NicRegistrations {
    fn keys(&self) -> Keys {
        self.remote
    }

    fn descriptor(&self) -> *mut c_void {
        ptr::from_ref(&*self.local).cast_mut().cast()
    }
}

/// Packet numbers and the like begin at random.
pub(super) fn random_24_bits() -> u32 {
    let mut seed = [0; 4];
    getrandom::fill(&mut seed).expect("the system has randomness");
    u32::from_ne_bytes(seed) >> 8
}

/// The error of something that this library has no call for.
pub(super) fn not_supported(call: &'static str) -> CallError {
    call_error(call, libc::EOPNOTSUPP)
}
