//! A device that is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::{fmt, ptr};

use mooncake_memory::process_id;

use crate::abi::{fid_domain, fid_fabric};
use crate::call::{CallError, op, wanted_failure, wants_local_registration};
use crate::device::{Device, DeviceOptions, find};
use crate::error::OpenError;
use crate::info::OwnedInfo;
use crate::load::Library;
use crate::object::Object;
use crate::progress::Progress;

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

impl Default for Limits {
    fn default() -> Self {
        Limits { piece_bytes: 1 << 30, request_bytes: 16 << 20, requests: 256 }
    }
}

/// A device that is open. Endpoints and registrations belong to it.
pub struct Domain {
    // Dropped in this order.
    pub(crate) domain: Object<fid_domain>,
    pub(crate) fabric: Object<fid_fabric>,
    pub(crate) info: OwnedInfo,
    pub(crate) library: &'static Library,
    pub(crate) limits: Limits,
    pub(crate) progress: Arc<Progress>,
    device: Device,
    number: u32,
    next_key: AtomicU64,
    process: u32,
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({}, {})", self.number, self.device)
    }
}

impl Domain {
    /// Opens the first device that fits.
    ///
    /// # Errors
    /// There is no library or no device, or it does not open.
    pub fn open(options: &DeviceOptions, limits: Limits) -> Result<Arc<Domain>, OpenError> {
        let (library, found) = find(options)?;
        let (mut device, info) = found.into_iter().next().expect("a list of devices is not empty");
        device.mr_mode.local |= wants_local_registration();
        let limits = Limits {
            requests: limits.requests.clamp(1, device.max_requests.max(1)),
            request_bytes: limits.request_bytes.clamp(1, device.max_request_bytes.max(1) as u64),
            piece_bytes: limits.piece_bytes.max(1),
        };
        let failed = |error| OpenError::Call { device: device.to_string(), error };
        let (fabric, domain) = open(library, &info).map_err(failed)?;
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).expect("the system has randomness");
        Ok(Arc::new(Domain {
            domain,
            fabric,
            info,
            library,
            limits,
            progress: Arc::default(),
            device,
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            next_key: AtomicU64::new(u64::from_ne_bytes(seed)),
            process: process_id(),
        }))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A number that no other domain of this process has.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Whether this process was forked since the domain was opened.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != process_id()
    }

    /// A key for a registration, if the provider does not choose keys. Keys begin at random: what was told about a
    /// process does not fit the next one at its address.
    pub(crate) fn next_key(&self) -> u64 {
        let bits = 8 * self.device.key_bytes.clamp(1, 8);
        // The highest number has a meaning of its own.
        let mask = (u64::MAX >> (64 - bits)) >> 1;
        self.next_key.fetch_add(1, Ordering::Relaxed) & mask
    }
}

fn open(
    library: &'static Library,
    info: &OwnedInfo,
) -> Result<(Object<fid_fabric>, Object<fid_domain>), CallError> {
    let info = info.as_ptr();
    let context = ptr::null_mut();
    // SAFETY: the library made the structure; what is opened belongs to the caller.
    unsafe {
        let fabric =
            Object::open(library, "fi_fabric", |opened| match wanted_failure("fi_fabric") {
                Some(number) => -number,
                None => (library.functions.fabric)((*info).fabric_attr, opened, context),
            })?;
        let domain = Object::open(library, "fi_domain", |opened| {
            let object = fabric.as_ptr();
            op!("fi_domain": (*object).ops => domain(object, info, opened, context))
        })?;
        Ok((fabric, domain))
    }
}
