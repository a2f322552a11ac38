//! Finds NICs, their ports and their GIDs, and chooses.

use std::ffi::{CStr, c_int};
use std::net::Ipv6Addr;
use std::ptr;

use super::abi::*;
use super::call::{Owned, check, last_error, verb};
use super::error::VerbsError;
use super::gid::{GidKind, PortGid, best};
use super::load::{VerbsLibrary, library};
use super::options::VerbsOptions;
use super::symbols::DevicePtr;
use super::{ETHERNET, INFINIBAND, PROVIDER};
use crate::call::CallError;
use crate::device::{Device, Link, MrMode};
use crate::verbs::address::{EndAddress, FORMAT};

/// Most GIDs of a device that are read.
const MAX_GIDS: usize = 4096;

/// A NIC, as libibverbs lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsNic {
    /// Its name, for example `mlx5_0`.
    pub name: String,
    /// Its ports.
    pub ports: Vec<VerbsPort>,
}

/// A port of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsPort {
    /// Its number, from 1 on.
    pub number: u8,
    /// Whether it can be used.
    pub is_active: bool,
    /// Whether its link is Ethernet, and not InfiniBand.
    pub is_ethernet: bool,
    /// Its address in an InfiniBand subnet; zero if it has none.
    pub lid: u16,
    /// Most bytes of a packet that it sends now.
    pub mtu_bytes: u32,
    /// Speed of the link; 0 if it is not known.
    pub bits_per_second: u64,
    /// Its GIDs.
    pub gids: Vec<PortGid>,
    /// Most bytes of a request.
    pub max_request_bytes: u32,
}

impl VerbsPort {
    /// The GID that is used if none is demanded.
    #[must_use]
    pub fn best_gid(&self) -> Option<PortGid> {
        best(&self.gids)
    }

    /// The GID to use; the error says why there is none.
    fn choose_gid(&self, index: Option<u8>) -> Result<PortGid, String> {
        let VerbsPort { number, gids, .. } = self;
        match index {
            None => self.best_gid().ok_or_else(|| format!("port {number} has no GID")),
            Some(index) => {
                let found = gids.iter().find(|gid| gid.index == u32::from(index)).copied();
                found.ok_or_else(|| format!("port {number} has no GID {index} (MC_GID_INDEX)"))
            }
        }
    }
}

/// A NIC that fits, open, and what of it is used.
pub(crate) struct FoundNic {
    pub(crate) context: Owned<Context>,
    pub(crate) library: &'static VerbsLibrary,
    pub(crate) options: VerbsOptions,
    pub(crate) attributes: DeviceAttr,
    pub(crate) port: VerbsPort,
    pub(crate) gid: PortGid,
    name: String,
}

impl FoundNic {
    /// The NIC as a device of this crate.
    pub(crate) fn device(&self) -> Device {
        let VerbsPort { number, is_active, is_ethernet, bits_per_second, .. } = self.port;
        let link = Link {
            nic: format!("{} port {number}, GID {}", self.name, self.gid),
            bits_per_second,
            is_up: Some(is_active),
            pci_address: None,
        };
        Device {
            provider: PROVIDER.to_owned(),
            name: self.name.clone(),
            fabric: if is_ethernet { ETHERNET } else { INFINIBAND }.to_owned(),
            address_format: FORMAT,
            address: self.address(0, 0).to_address().bytes,
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
            max_request_bytes: self.port.max_request_bytes as usize,
            link: Some(link),
        }
    }

    /// The address of an end at this port.
    pub(crate) fn address(&self, number: u32, first_packet: u32) -> EndAddress {
        let mtu = mtu_number(self.options.mtu.min(self.port.mtu_bytes));
        EndAddress {
            number,
            first_packet,
            lid: self.port.lid,
            mtu,
            link_layer: match self.port.is_ethernet {
                true => IBV_LINK_LAYER_ETHERNET,
                false => IBV_LINK_LAYER_INFINIBAND,
            },
            reads: u8::try_from(self.attributes.max_qp_rd_atom.max(1)).unwrap_or(u8::MAX),
            gid: self.gid.address.octets(),
        }
    }
}

impl VerbsOptions {
    /// Lists all NICs that these options let be used.
    ///
    /// # Errors
    /// The library cannot be used, a call of it failed, or it finds no NIC.
    pub fn nics(&self) -> Result<Vec<VerbsNic>, VerbsError> {
        let library = library(self.library.as_deref())?;
        let mut nics = Vec::new();
        for opened in open_all(library, &self.devices)? {
            let (name, context) = opened?;
            let (_, ports) = ports(library, &context)?;
            nics.push(VerbsNic { name, ports });
        }
        Ok(nics)
    }

    /// Opens the first NIC with a port and a GID that fit.
    pub(crate) fn find(&self) -> Result<FoundNic, VerbsError> {
        let library = library(self.library.as_deref())?;
        let mut reasons = Vec::new();
        for opened in open_all(library, &self.devices)? {
            let (name, context) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    reasons.push(error.to_string());
                    continue;
                }
            };
            let (attributes, ports) = match ports(library, &context) {
                Ok(found) => found,
                Err(error) => {
                    reasons.push(format!("{name}: {error}"));
                    continue;
                }
            };
            match self.choose(ports) {
                Ok((port, gid)) => {
                    let options = self.clone();
                    return Ok(FoundNic { context, library, options, attributes, port, gid, name });
                }
                Err(reason) => reasons.push(format!("{name}: {reason}")),
            }
        }
        Err(VerbsError::NoneFits { reasons })
    }

    /// The port and the GID to use of a NIC; the error says why there is none.
    fn choose(&self, ports: Vec<VerbsPort>) -> Result<(VerbsPort, PortGid), String> {
        let mut reasons = Vec::new();
        for port in ports {
            let number = port.number;
            if self.port.is_some_and(|wanted| wanted != number) {
                continue;
            }
            if !port.is_active {
                reasons.push(format!("port {number} is down"));
                continue;
            }
            match port.choose_gid(self.gid_index) {
                Ok(gid) => return Ok((port, gid)),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(match (reasons.is_empty(), self.port) {
            (false, _) => reasons.join(", "),
            (true, Some(port)) => format!("it has no port {port} (MC_IB_PORT)"),
            (true, None) => "it has no port".to_owned(),
        })
    }
}

/// A NIC that was opened, or why not.
type OpenedNic = Result<(String, Owned<Context>), CallError>;

/// Opens the NICs of these names, in this order, or all.
fn open_all(
    library: &'static VerbsLibrary,
    names: &[String],
) -> Result<Vec<OpenedNic>, VerbsError> {
    let mut count: c_int = 0;
    // SAFETY: the call stores a number.
    let list = unsafe {
        let failed = |_| ptr::null_mut();
        verb!(library, "ibv_get_device_list", failed => get_device_list(&raw mut count))
    };
    if list.is_null() {
        let error = last_error("ibv_get_device_list");
        // Without the kernel's part of it.
        return Err(match error.number {
            libc::ENOSYS | libc::ENOENT => VerbsError::NoDevice,
            _ => error.into(),
        });
    }
    let at_place = |at: usize| {
        // SAFETY: the list has so many devices, whose names end with a zero, and is freed below.
        unsafe {
            let device = *list.add(at);
            let name = (library.functions.get_device_name)(device);
            (CStr::from_ptr(name).to_string_lossy().into_owned(), device)
        }
    };
    let count = usize::try_from(count).unwrap_or(0);
    let devices: Vec<(String, DevicePtr)> = (0..count).map(at_place).collect();
    let is_empty = devices.is_empty();
    let wanted: Vec<&(String, DevicePtr)> = match names.is_empty() {
        true => devices.iter().collect(),
        false => {
            let named = |name: &String| devices.iter().find(|(other, _)| other == name);
            names.iter().filter_map(named).collect()
        }
    };
    let opened = wanted.into_iter().map(|(name, device)| {
        // SAFETY: the device is in the list, which lives; what is opened belongs to the caller.
        let context = unsafe {
            let failed = |_| ptr::null_mut();
            let context = verb!(library, "ibv_open_device", failed => open_device(*device));
            Owned::new("ibv_open_device", context, library.functions.close_device)
        };
        context.map(|context| (name.clone(), context))
    });
    let opened: Vec<OpenedNic> = opened.collect();
    // SAFETY: the list came from the library, and nothing of it is used any more.
    unsafe { (library.functions.free_device_list)(list) };
    if is_empty {
        return Err(VerbsError::NoDevice);
    }
    if opened.is_empty() {
        let found: Vec<&str> = devices.iter().map(|(name, _)| name.as_str()).collect();
        let (names, found) = (names.join(", "), found.join(", "));
        let reasons = vec![format!("there is no {names}, only {found}")];
        return Err(VerbsError::NoneFits { reasons });
    }
    Ok(opened)
}

/// What the NIC can do, and its ports.
fn ports(
    library: &'static VerbsLibrary,
    context: &Owned<Context>,
) -> Result<(DeviceAttr, Vec<VerbsPort>), CallError> {
    // SAFETY: all zero is a valid value: numbers. The context lives, and there is room for what the calls store.
    let attributes = unsafe {
        let mut attributes: DeviceAttr = std::mem::zeroed();
        let into = &raw mut attributes;
        let status = verb!(library, "ibv_query_device", |number| number => query_device(context.as_ptr(), into));
        check("ibv_query_device", status)?;
        attributes
    };
    let mut ports = Vec::new();
    for number in 1..=attributes.phys_port_cnt {
        // SAFETY: as above.
        let port = unsafe {
            let mut port: PortAttr = std::mem::zeroed();
            let (context, into) = (context.as_ptr(), &raw mut port);
            let status = verb!(library, "ibv_query_port", |number| number => query_port(context, number, into));
            check("ibv_query_port", status)?;
            port
        };
        ports.push(port_of(number, &port));
    }
    let entries = gid_table(library, context)?;
    for entry in entries {
        let gid = PortGid {
            index: entry.gid_index,
            kind: GidKind::of_number(entry.gid_type),
            address: Ipv6Addr::from(entry.gid.0),
        };
        let port = ports.iter_mut().find(|port| u32::from(port.number) == entry.port_num);
        port.into_iter().for_each(|port| port.gids.push(gid));
    }
    Ok((attributes, ports))
}

/// The GIDs of all ports.
fn gid_table(
    library: &'static VerbsLibrary,
    context: &Owned<Context>,
) -> Result<Vec<GidEntry>, CallError> {
    let mut entries: Vec<GidEntry> = Vec::with_capacity(MAX_GIDS);
    // SAFETY: the context lives, there is room for so many entries, and the call has filled in as many as it says.
    unsafe {
        let (into, len) = (entries.as_mut_ptr(), size_of::<GidEntry>());
        let context = context.as_ptr();
        let failed = |number: c_int| -(number as isize);
        let count = verb!(
            library, "ibv_query_gid_table", failed => query_gid_table(context, into, MAX_GIDS, 0, len)
        );
        let Ok(count) = usize::try_from(count) else {
            let number = c_int::try_from(-count).unwrap_or(libc::EIO);
            return Err(super::call::call_error("ibv_query_gid_table", number));
        };
        entries.set_len(count.min(MAX_GIDS));
    }
    Ok(entries)
}

fn port_of(number: u8, port: &PortAttr) -> VerbsPort {
    VerbsPort {
        number,
        is_active: port.state == IBV_PORT_ACTIVE,
        is_ethernet: port.link_layer == IBV_LINK_LAYER_ETHERNET,
        lid: port.lid,
        mtu_bytes: mtu_bytes(port.active_mtu),
        bits_per_second: speed(port.active_width, port.active_speed),
        gids: Vec::new(),
        max_request_bytes: port.max_msg_sz,
    }
}

/// The library's number for packets of so many bytes, a power of two.
fn mtu_number(bytes: u32) -> u8 {
    let number = bytes.max(256).ilog2() - 7;
    number.clamp(IBV_MTU_256, IBV_MTU_4096) as u8
}

fn mtu_bytes(number: u32) -> u32 {
    128 << number.clamp(IBV_MTU_256, IBV_MTU_4096)
}

/// The speed of a link of so many lanes, both as bits of the library.
fn speed(width: u8, speed: u8) -> u64 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let megabits = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    lanes * megabits * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_library_stand_for_packets_and_speeds() {
        for (number, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!((mtu_bytes(number), u32::from(mtu_number(bytes))), (bytes, number));
        }
        assert_eq!((mtu_number(9000), mtu_number(0)), (5, 1));
        assert_eq!(
            [speed(2, 32), speed(2, 128), speed(1, 1)],
            [100_000_000_000, 400_000_000_000, 2_500_000_000]
        );
        assert_eq!(speed(2, 0), 0);
    }

    fn port(number: u8, is_active: bool) -> VerbsPort {
        let gid =
            |index, kind, address: &str| PortGid { index, kind, address: address.parse().unwrap() };
        VerbsPort {
            number,
            is_active,
            is_ethernet: true,
            lid: 0,
            mtu_bytes: 1024,
            bits_per_second: 0,
            gids: vec![
                gid(0, GidKind::RoceV1, "fe80::1"),
                gid(1, GidKind::RoceV2, "::ffff:10.0.0.7"),
            ],
            max_request_bytes: 1 << 30,
        }
    }

    #[test]
    fn the_first_active_port_is_used_unless_another_is_named() {
        let default = VerbsOptions::default();
        let check = |options: &VerbsOptions, ports, expected: Result<(u8, u32), &str>| {
            let found = options.choose(ports).map(|(port, gid)| (port.number, gid.index));
            assert_eq!(found, expected.map_err(str::to_owned));
        };
        check(&default, vec![port(1, true), port(2, true)], Ok((1, 1)));
        check(&default, vec![port(1, false), port(2, true)], Ok((2, 1)));
        check(&default, vec![port(1, false)], Err("port 1 is down"));
        check(&default, vec![], Err("it has no port"));
        let second = VerbsOptions { port: Some(2), ..default.clone() };
        check(&second, vec![port(1, true), port(2, true)], Ok((2, 1)));
        check(&second, vec![port(1, true), port(2, false)], Err("port 2 is down"));
        check(&second, vec![port(1, true)], Err("it has no port 2 (MC_IB_PORT)"));
        let first_gid = VerbsOptions { gid_index: Some(0), ..default.clone() };
        check(&first_gid, vec![port(1, true)], Ok((1, 0)));
        let third = VerbsOptions { gid_index: Some(3), ..default };
        check(&third, vec![port(1, true)], Err("port 1 has no GID 3 (MC_GID_INDEX)"));
    }
}
