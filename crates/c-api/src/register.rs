//! The functions that register memory.

use std::ffi::{c_int, c_void};

use mooncake_binding::{batch, log};

use crate::guard::{guarded, refuse};
use crate::handle::{self, Handle};

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_register_buffer(
    store: Handle,
    buffer: *mut c_void,
    size: usize,
) -> c_int {
    let name = "mooncake_store_register_buffer";
    guarded(name, || {
        let client = handle::client(name, store)?;
        if buffer.is_null() {
            return Err(refuse(name, "buffer", "is null"));
        }
        let registered = client.register(buffer.expose_provenance(), size);
        if registered.is_err() {
            let text = format_args!(
                "{size} bytes at {buffer:p} are empty, wrap around, overlap or are memory neither of the host nor of a GPU"
            );
            log::warn(name, "range", text);
        }
        Ok(batch::done(registered))
    })
}

#[unsafe(no_mangle)]
extern "C" fn mooncake_store_unregister_buffer(store: Handle, buffer: *mut c_void) -> c_int {
    let name = "mooncake_store_unregister_buffer";
    guarded(name, || {
        let unregistered = handle::client(name, store)?.unregister(buffer.addr());
        if unregistered.is_err() {
            log::warn(name, "range", format_args!("no registered buffer starts at {buffer:p}"));
        }
        Ok(batch::done(unregistered))
    })
}
