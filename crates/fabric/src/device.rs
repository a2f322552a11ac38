//! Devices: NICs, or interfaces of software providers, as libfabric lists them.

use std::fmt;

use thiserror::Error;

use crate::abi::{FI_MR_ALLOCATED, FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR};
use crate::address::address_text;
use crate::call::CallError;
use crate::error::DeviceRefusal;
use crate::info::{OwnedInfo, list};
use crate::load::{Library, LoadError, Version, library};

/// Which device is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Name or path of the library instead of `libfabric.so.1`.
    pub library: Option<String>,
    /// Name of the provider (`efa`, `cxi`, `tcp`, `shm`), of any if `None`.
    pub provider: Option<String>,
    /// Name of the device or interface, any if `None`.
    pub device: Option<String>,
}

impl DeviceOptions {
    /// Reads `MC_LIBFABRIC_PATH` and `MOONCAKE_FABRIC_PROVIDER` by `variable`. Empty values count as not set.
    #[must_use]
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> DeviceOptions {
        let text = |name| variable(name).filter(|value| !value.is_empty());
        DeviceOptions {
            library: text("MC_LIBFABRIC_PATH"),
            provider: text("MOONCAKE_FABRIC_PROVIDER"),
            device: None,
        }
    }
}

/// Why there is no device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// The library cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// No device fits.
    #[error("libfabric {version} has no device for one-sided transfers{wanted}")]
    NoDevice {
        /// The library's version.
        version: Version,
        /// The provider and the device that were asked for, as a part of the message.
        wanted: String,
    },
}

/// What a provider asks of registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrMode {
    /// Memory of the side that submits must be registered, too.
    pub local: bool,
    /// Remote addresses are virtual addresses of the target, and not offsets.
    pub virtual_addresses: bool,
    /// Pages must exist when they are registered.
    pub allocated: bool,
    /// The provider chooses the keys.
    pub provider_keys: bool,
    /// Registrations belong to an endpoint.
    pub of_endpoint: bool,
}

impl MrMode {
    /// All that this crate can do but virtual addresses.
    pub(crate) const OFFSETS: MrMode = MrMode {
        local: true,
        virtual_addresses: false,
        allocated: true,
        provider_keys: true,
        of_endpoint: true,
    };

    const ALL: MrMode = MrMode { virtual_addresses: true, ..MrMode::OFFSETS };

    pub(crate) fn from_bits(bits: i32) -> MrMode {
        MrMode {
            local: bits & FI_MR_LOCAL != 0,
            virtual_addresses: bits & FI_MR_VIRT_ADDR != 0,
            allocated: bits & FI_MR_ALLOCATED != 0,
            provider_keys: bits & FI_MR_PROV_KEY != 0,
            of_endpoint: bits & FI_MR_ENDPOINT != 0,
        }
    }

    pub(crate) fn bits(self) -> i32 {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        bit(self.local, FI_MR_LOCAL)
            | bit(self.virtual_addresses, FI_MR_VIRT_ADDR)
            | bit(self.allocated, FI_MR_ALLOCATED)
            | bit(self.provider_keys, FI_MR_PROV_KEY)
            | bit(self.of_endpoint, FI_MR_ENDPOINT)
    }
}

/// The NIC behind a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The NIC's name.
    pub nic: String,
    /// Speed of the link; 0 if it is not known.
    pub bits_per_second: u64,
    /// Whether the link is up, if that is known.
    pub is_up: Option<bool>,
    /// `domain:bus:device.function`, if it is on PCI.
    pub pci_address: Option<String>,
}

/// A device, as a provider offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name of the provider, with the layers on it: `efa`, `tcp;ofi_rxm`.
    pub provider: String,
    /// Name of the device or interface.
    pub name: String,
    /// Name of the network that it is on.
    pub fabric: String,
    /// Format of addresses: a number of libfabric.
    pub address_format: u32,
    /// The address that endpoints get, as far as it is known before they exist.
    pub address: Vec<u8>,
    /// What registrations need.
    pub mr_mode: MrMode,
    /// Length of keys.
    pub key_bytes: usize,
    /// Whether transfers only move while a thread calls the provider, also at the target.
    pub needs_progress: bool,
    /// Most requests in flight on an endpoint.
    pub max_requests: usize,
    /// Most bytes of a request.
    pub max_request_bytes: usize,
    /// The NIC, if the provider names it.
    pub link: Option<Link>,
}

/// A NIC of a device, and what this process has moved by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicUse {
    /// Its name.
    pub name: String,
    /// Whether it works.
    pub is_up: bool,
    /// Bytes of reads, repeated ones included.
    pub read_bytes: u64,
    /// Bytes of writes, repeated ones included.
    pub written_bytes: u64,
    /// Requests.
    pub requests: u64,
    /// Requests that it did not carry out. Other NICs have, if there were some.
    pub lost_requests: u64,
}

/// How a NIC knows memory of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKnownBy {
    /// By a dmabuf.
    Dmabuf,
    /// By its address, which the kernel module nvidia-peermem explains to it.
    Peermem {
        /// Why not by a dmabuf.
        not_dmabuf: String,
    },
}

/// What became of a try to register memory of a device with a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicTrial {
    /// The NIC's name.
    pub nic: String,
    /// How it knows the memory, or why it does not.
    pub known_by: Result<DeviceKnownBy, DeviceRefusal>,
}

/// What makes sure that a peer which was told a key cannot write any more, not even with a request that it posted before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// Dropping what was exposed: the NIC refuses the key from then on.
    Key,
    /// Dropping the target. Without the key new requests are refused, but one that has begun goes on.
    Endpoint,
}

/// Most peers of an endpoint of `shm`, those that are gone included.
const MOST_SHM_PEERS: u64 = 256;

impl Device {
    /// What both sides must have in common, as a text: the library, and the provider or the kind of link.
    #[must_use]
    pub fn transport(&self) -> String {
        match self.joins_in_pairs() {
            true => format!("{}:{}", self.provider, self.fabric),
            false => format!("libfabric:{}", self.provider),
        }
    }

    /// Whether each peer needs an end of a connection of its own, which both sides make before the first transfer
    /// ([`crate::Initiator::prepare`], [`crate::Target::admit`]).
    #[must_use]
    pub fn joins_in_pairs(&self) -> bool {
        self.provider == crate::verbs::PROVIDER
    }

    /// Most peers that an initiator may name, one after the other.
    #[must_use]
    pub fn max_peers(&self) -> u64 {
        if self.provider == "shm" { MOST_SHM_PEERS } else { u64::MAX }
    }

    /// What stops writers.
    ///
    /// The NICs behind `verbs` and `cxi` look at the key for each packet. Software providers look once for each request,
    /// and so does `efa` where its NIC cannot write by itself. Unknown providers are taken for such.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        match self.provider.split(';').next() {
            Some("cxi" | "verbs" | crate::verbs::PROVIDER) => Revocation::Key,
            _ => Revocation::Endpoint,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device { provider, name, address_format, address, .. } = self;
        write!(f, "{provider} on {name}, {}", address_text(*address_format, address))
    }
}

/// The version of the library.
///
/// # Errors
/// It cannot be used.
pub fn library_version(options: &DeviceOptions) -> Result<Version, LoadError> {
    library(options.library.as_deref()).map(|library| library.version)
}

/// Lists all devices that fit, best first: the order is the library's.
///
/// # Errors
/// The library cannot be used, or no device fits.
pub fn devices(options: &DeviceOptions) -> Result<Vec<Device>, DeviceError> {
    let (_, found) = find(options)?;
    Ok(found.into_iter().map(|(device, _)| device).collect())
}

/// The library, and its devices with the structures to open them.
pub(crate) type Found = (&'static Library, Vec<(Device, OwnedInfo)>);

/// As [`devices`], to open them.
///
/// A provider that can do without virtual addresses is not offered them: `shm` would otherwise read the memory of other
/// processes without a look at keys.
pub(crate) fn find(options: &DeviceOptions) -> Result<Found, DeviceError> {
    let library = library(options.library.as_deref())?;
    let mut without = list(library, options, MrMode::OFFSETS)?;
    let mut found = list(library, options, MrMode::ALL)?;
    for (device, info) in &mut found {
        let is_same = |other: &Device| {
            (&other.provider, &other.name, &other.address)
                == (&device.provider, &device.name, &device.address)
        };
        if let Some(at) = without.iter().position(|(other, _)| is_same(other)) {
            (*device, *info) = without.remove(at);
        }
    }
    // Some providers list all devices, whichever was named.
    found.retain(|(device, _)| options.device.as_ref().is_none_or(|name| device.name == *name));
    if found.is_empty() {
        let named = |what: &str, name: &Option<String>| {
            name.as_ref().map_or(String::new(), |name| format!(", {what} {name}"))
        };
        let wanted = named("provider", &options.provider) + &named("device", &options.device);
        return Err(DeviceError::NoDevice { version: library.version, wanted });
    }
    Ok((library, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_library_and_provider() {
        let read = |set: &[(&str, &str)]| {
            DeviceOptions::from_variables(|name| {
                let value = set.iter().find(|(variable, _)| *variable == name);
                value.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(read(&[]), DeviceOptions::default());
        assert_eq!(read(&[("MOONCAKE_FABRIC_PROVIDER", "")]), DeviceOptions::default());
        let set = [("MOONCAKE_FABRIC_PROVIDER", "tcp"), ("MC_LIBFABRIC_PATH", "/opt/lib.so")];
        let expected = DeviceOptions {
            library: Some("/opt/lib.so".into()),
            provider: Some("tcp".into()),
            device: None,
        };
        assert_eq!(read(&set), expected);
    }

    #[test]
    fn modes_are_the_bits_that_they_came_from() {
        for mode in [MrMode::OFFSETS, MrMode::ALL, MrMode::from_bits(0)] {
            assert_eq!(MrMode::from_bits(mode.bits()), mode);
        }
        assert_eq!(MrMode::from_bits(FI_MR_LOCAL).bits(), FI_MR_LOCAL);
    }
}
