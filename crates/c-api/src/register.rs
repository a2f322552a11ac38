//! The functions that register memory.

use std::ffi::{c_int, c_void};

use mooncake_binding::{batch, log};
use mooncake_client::{Place, Store};
use mooncake_memory::PlacedRange;

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
        if let (Ok(()), Some(store)) = (&registered, client.own()) {
            use_in_place(store, buffer.expose_provenance(), size);
        }
        Ok(batch::done(registered))
    })
}

/// Lets transfers use a buffer of the host in place that was just registered.
fn use_in_place(store: &Store, address: usize, len: usize) {
    let range = PlacedRange { place: Place::Host, address, len };
    let is_host = store.check_registered(address, len).is_ok_and(|it| it.place == Place::Host);
    // SAFETY: the caller of `mooncake_store_register_buffer` promises that the memory stays mapped and writable until
    // `mooncake_store_unregister_buffer`, which makes the store forget it.
    let memory = is_host.then(|| unsafe { range.slice() }).and_then(|memory| memory.host());
    if let Some(memory) = memory {
        store.use_in_place(memory);
    }
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
