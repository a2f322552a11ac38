//! A device that is open.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mooncake_memory::{DeviceRegion, HeldMemory, process_id};

use crate::call::{CallError, wants_local_registration};
use crate::device::{Device, DeviceOptions, NicTrial, NicUse, find};
use crate::error::{OpenError, RegisterError};
use crate::libfabric::Libfabric;
use crate::port::{Port, Provider, Side};
use crate::progress::Progress;
use crate::registration::LocalPieces;
use crate::verbs::{VerbsDevice, VerbsOptions};

static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

/// Bounds of what a domain does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest piece in which memory is registered. Providers fail on very long ones, or take long.
    pub piece_bytes: u64,
    /// Most bytes of one request.
    pub request_bytes: u64,
    /// Most requests in flight on an endpoint.
    pub requests: usize,
}

impl Limits {
    /// As far as the device allows.
    fn of(self, device: &Device) -> Limits {
        Limits {
            requests: self.requests.clamp(1, device.max_requests.max(1)),
            request_bytes: self.request_bytes.clamp(1, device.max_request_bytes.max(1) as u64),
            piece_bytes: self.piece_bytes.max(1),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { piece_bytes: 1 << 30, request_bytes: 16 << 20, requests: 256 }
    }
}

/// A device that is open. Endpoints and registrations belong to it.
pub struct Domain {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) limits: Limits,
    /// Most bytes of one request of a long part, if the peer is reached by several ways.
    pub(crate) slice_bytes: u64,
    pub(crate) progress: Arc<Progress>,
    device: Device,
    number: u32,
    process: u32,
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({}, {})", self.number, self.device)
    }
}

impl Domain {
    /// Opens the first device of libfabric that fits.
    ///
    /// # Errors
    /// There is no library or no device, or it does not open.
    pub fn open(options: &DeviceOptions, limits: Limits) -> Result<Arc<Domain>, OpenError> {
        let (library, found) = find(options)?;
        let (mut device, info) = found.into_iter().next().expect("a list of devices is not empty");
        device.mr_mode.local |= wants_local_registration();
        let limits = limits.of(&device);
        let opened = Libfabric::open(library, (device.clone(), info), limits.requests);
        Domain::of(device, limits, opened)
    }

    /// Opens the NICs of libibverbs that fit and have an active port, as one device.
    ///
    /// # Errors
    /// There is no library, no such NIC, or one of them does not open.
    pub fn open_verbs(options: &VerbsOptions, limits: Limits) -> Result<Arc<Domain>, OpenError> {
        let opened = VerbsDevice::open(options, limits.requests)?;
        let device = opened.device();
        let limits = limits.of(&device);
        Ok(Domain::new(device, limits, options.slice_bytes, Arc::new(opened)))
    }

    fn of<P: Provider + 'static>(
        device: Device,
        limits: Limits,
        opened: Result<P, CallError>,
    ) -> Result<Arc<Domain>, OpenError> {
        let failed = |error| OpenError::Call { device: device.to_string(), error };
        let provider = Arc::new(opened.map_err(failed)?);
        Ok(Domain::new(device, limits, u64::MAX, provider))
    }

    fn new(
        device: Device,
        limits: Limits,
        slice_bytes: u64,
        provider: Arc<dyn Provider>,
    ) -> Arc<Domain> {
        Arc::new(Domain {
            provider,
            limits,
            slice_bytes,
            progress: Arc::default(),
            device,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            process: process_id(),
        })
    }

    pub(crate) fn open_port(&self, side: Side) -> Result<Box<dyn Port>, OpenError> {
        if self.is_forked() {
            return Err(OpenError::Forked);
        }
        let failed = |error| OpenError::Call { device: self.device.to_string(), error };
        Arc::clone(&self.provider).open_port(side).map_err(failed)
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What goes by each NIC of libibverbs; empty for other devices.
    #[must_use]
    pub fn nics(&self) -> Vec<NicUse> {
        self.provider.nics()
    }

    /// Registers the region of local memory now, and not at its first transfer. It stays so as long as the region. Memory
    /// of the host is left alone where the provider does not ask for it.
    ///
    /// # Errors
    /// The provider refuses, or the process was forked.
    pub fn register(self: &Arc<Self>, memory: &HeldMemory) -> Result<(), RegisterError> {
        match memory {
            HeldMemory::Host(_) if !self.device.mr_mode.local => Ok(()),
            _ => LocalPieces::of(self, memory).map(|_| ()),
        }
    }

    /// Tries how each NIC of libibverbs registers memory of a device; empty for other devices, which take none.
    #[must_use]
    pub fn try_device(&self, memory: &DeviceRegion) -> Vec<NicTrial> {
        self.provider.devices().map_or_else(Vec::new, |devices| devices.try_each(memory))
    }

    /// A number that no other domain of this process has.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether this process was forked since the domain was opened.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_id()
    }
}
