//! What libibverbs lists: devices, what they can do, their ports, and the GIDs of these.

use std::ffi::{CStr, c_int};
use std::net::Ipv6Addr;
use std::ptr;

use super::abi::*;
use super::call::{Owned, call_error, check, last_error, verb};
use super::error::VerbsError;
use super::gid::{GidKind, PortGid};
use super::load::VerbsLibrary;
use super::ports::VerbsPort;
use super::symbols::DevicePtr;
use crate::call::CallError;

/// Most GIDs of a device that are read.
const MAX_GIDS: usize = 4096;

/// A NIC that was opened, or why not.
pub(super) type OpenedNic = Result<(String, Owned<Context>), CallError>;

/// Opens the NICs of these names, in this order, or all.
pub(super) fn open_all(
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
pub(super) fn ports_of(
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
        ports.push(VerbsPort::of_attributes(number, &port));
    }
    let entries = gid_table(library, context)?;
    for entry in entries {
        let gid = PortGid {
            index: entry.gid_index,
            kind: GidKind::of_number(entry.gid_type),
            address: Ipv6Addr::from(entry.gid.0),
            interface: entry.ndev_ifindex,
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
            return Err(call_error("ibv_query_gid_table", number));
        };
        entries.set_len(count.min(MAX_GIDS));
    }
    Ok(entries)
}
