//! The metadata server of transfer engines: values by key, which engines publish about themselves and look up about
//! others. Clients and nodes of the store need none; deployments of the C++ package expect one beside the master.

mod entries;
mod routes;

use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) use routes::{limits, router};

use entries::{Bounds, Entries};

/// The entries, shared by the thread that serves them and the owner, which removes those of dead clients.
#[derive(Clone, Debug)]
pub(crate) struct MetadataEntries(Arc<Mutex<Entries>>);

impl MetadataEntries {
    pub(crate) fn new() -> MetadataEntries {
        MetadataEntries(Arc::new(Mutex::new(Entries::new(Bounds::default()))))
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().expect("no holder of the entries panicked")
    }
}

/// Removes the entries that dead clients published.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    pub(crate) registry: MetadataEntries,
    /// The prefix of clients' keys, like `mooncake/`.
    pub(crate) prefix: String,
}

impl Cleanup {
    /// Removes the entries that belong to these segments.
    pub(crate) fn forget(&self, segments: &[Arc<str>]) {
        if segments.is_empty() {
            return;
        }
        let mut entries = self.registry.lock();
        for segment in segments {
            for kind in ["ram", "rpc_meta"] {
                let key = format!("{}{kind}/{segment}", self.prefix);
                if entries.remove(&key) {
                    let key = mooncake_types::ShownKey(&key);
                    tracing::info!(%key, "forgot the metadata of a dead client");
                }
            }
        }
    }
}
