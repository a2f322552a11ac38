//! The stores of this process, by handle.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_binding::{ClientSlot, PoolClient};
use mooncake_client::{ErrorCode, Store};

use crate::guard::refuse;

/// `mooncake_store_t`. C sees a pointer; it is a key of the table, and nothing lies there.
pub(crate) type Handle = *mut c_void;

static STORES: RwLock<Stores> = RwLock::new(Stores { last: 0, slots: BTreeMap::new() });

struct Stores {
    /// The last number given out. Numbers are not used again.
    last: usize,
    slots: BTreeMap<usize, Arc<ClientSlot>>,
}

/// Makes a store that is not set up.
pub(crate) fn create() -> Handle {
    let mut stores = STORES.write().unwrap_or_else(PoisonError::into_inner);
    stores.last += 1;
    let number = stores.last;
    stores.slots.insert(number, Arc::default());
    std::ptr::without_provenance_mut(number)
}

/// Takes a store out of the table. Calls that have begun end on their own.
pub(crate) fn destroy(handle: Handle) -> Option<Arc<ClientSlot>> {
    let mut stores = STORES.write().unwrap_or_else(PoisonError::into_inner);
    stores.slots.remove(&handle.addr())
}

/// The store of a handle.
///
/// # Errors
/// `InvalidParams` for a null handle, and for one that `create` did not return or that was destroyed.
pub(crate) fn slot(operation: &str, handle: Handle) -> Result<Arc<ClientSlot>, ErrorCode> {
    let stores = STORES.read().unwrap_or_else(PoisonError::into_inner);
    let found = stores.slots.get(&handle.addr()).map(Arc::clone);
    found.ok_or_else(|| match handle.is_null() {
        true => refuse(operation, "store", "is null"),
        false => {
            refuse(operation, "store", "is no handle of a store, or of one that was destroyed")
        }
    })
}

/// The open client of a handle.
///
/// # Errors
/// `InvalidParams` as [`slot`], and while the store is not set up.
pub(crate) fn client(operation: &str, handle: Handle) -> Result<Arc<PoolClient>, ErrorCode> {
    slot(operation, handle)?.client_for(operation).ok_or(ErrorCode::InvalidParams)
}

/// The store of an open client.
///
/// # Panics
/// If the client is a dummy, which no function of this library opens.
pub(crate) fn own(client: &PoolClient) -> &Store {
    client.own().expect("only setup opens clients here, and it opens no dummies")
}
