//! Stores come and go.

use std::ffi::{c_char, c_int};

use mooncake_binding::{DEFAULT_MASTER, Setup, SetupError};
use mooncake_client::{ErrorCode, Health};

use crate::guard::{guarded, refuse};
use crate::handle::{self, Handle};
use crate::text::{text, text_or};

/// What `health_check` returns for a store that is not set up.
const NOT_SET_UP: c_int = 1;

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_create() -> Handle {
    handle::create()
}

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_destroy(store: Handle) {
    let name = "mooncake_store_destroy";
    guarded(name, || {
        if store.is_null() {
            return Ok(0);
        }
        let destroyed = handle::destroy(store);
        let slot = destroyed.ok_or_else(|| {
            refuse(name, "store", "is no handle of a store, or of one that was destroyed")
        })?;
        if let Some(client) = slot.take() {
            client.close();
        }
        Ok(0)
    });
}

/// # Safety
/// Each text is null or a string that ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_setup(
    store: Handle,
    local_hostname: *const c_char,
    metadata_server: *const c_char,
    global_segment_size: u64,
    local_buffer_size: u64,
    protocol: *const c_char,
    device_name: *const c_char,
    master_server_addr: *const c_char,
) -> c_int {
    let name = "mooncake_store_setup";
    guarded(name, || {
        // SAFETY: the caller upholds the terms.
        let (hostname, metadata, protocol, device, master) = unsafe {
            (
                text(name, "local_hostname", local_hostname)?,
                text(name, "metadata_server", metadata_server)?,
                text_or(name, "protocol", protocol, "tcp")?,
                text_or(name, "device_name", device_name, "")?,
                text_or(name, "master_server_addr", master_server_addr, DEFAULT_MASTER)?,
            )
        };
        let setup = Setup {
            local_hostname: hostname.to_owned(),
            metadata_server: metadata.to_owned(),
            global_segment_size,
            local_buffer_size,
            protocol: protocol.to_owned(),
            master_server_addr: master.to_owned(),
            ..Setup::default()
        };
        open(name, store, &setup.with_ignored(&[("rdma_devices", device)]))
    })
}

/// # Safety
/// Each text is null or a string that ends with a zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_init_all(
    store: Handle,
    protocol: *const c_char,
    device_name: *const c_char,
    mount_segment_size: u64,
) -> c_int {
    let name = "mooncake_store_init_all";
    guarded(name, || {
        // SAFETY: the caller upholds the terms.
        let (protocol, device) = unsafe {
            (
                text_or(name, "protocol", protocol, "tcp")?,
                text_or(name, "device_name", device_name, "")?,
            )
        };
        let setup = Setup::for_trials(protocol, Some(mount_segment_size));
        open(name, store, &setup.with_ignored(&[("rdma_devices", device)]))
    })
}

fn open(operation: &str, store: Handle, setup: &Setup) -> Result<c_int, ErrorCode> {
    let slot = handle::slot(operation, store)?;
    let opened = slot.set_up(|| {
        let client = setup.opening()?.open_while(|| true).map_err(SetupError::Open)?;
        Ok((client, ()))
    });
    Ok(opened.map_or_else(|error: SetupError| error.report(operation), |()| 0))
}

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_health_check(store: Handle) -> c_int {
    let name = "mooncake_store_health_check";
    guarded(name, || {
        let Some(client) = handle::slot(name, store)?.client() else { return Ok(NOT_SET_UP) };
        Ok(match client.health() {
            Health::Ok => 0,
            Health::MasterUnreachable => 2,
            Health::Broken => 3,
        })
    })
}

/// # Safety
/// `buf_out` is null or has `buf_len` writable bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn mooncake_store_get_hostname(
    store: Handle,
    buf_out: *mut c_char,
    buf_len: usize,
) -> c_int {
    let name = "mooncake_store_get_hostname";
    guarded(name, || {
        let client = handle::slot(name, store)?.client();
        let hostname = client.as_ref().map_or("", |client| client.hostname());
        if buf_out.is_null() {
            return Err(refuse(name, "buf_out", "is null"));
        }
        if buf_len <= hostname.len() {
            return Err(refuse(name, "buf_len", "is too small for the name and a zero byte"));
        }
        // SAFETY: the name and the zero byte fit into `buf_len` bytes, which the caller says are writable.
        unsafe {
            buf_out.copy_from_nonoverlapping(hostname.as_ptr().cast(), hostname.len());
            buf_out.add(hostname.len()).write(0);
        }
        Ok(0)
    })
}
