use mooncake_types::Secret;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_client::Store;
use mooncake_connection::Permits;

use super::attached_dummy::AttachedDummy;
use super::open_connections::OpenConnections;

/// The attached dummies, and what their connections share.
pub(super) struct AttachedDummies {
    pub(super) store: Arc<Store>,
    pub(super) auth_token: Secret,
    dummies: Mutex<BTreeMap<u128, Arc<AttachedDummy>>>,
    pub(super) connections: OpenConnections,
    /// Permits for calls that run at the same time.
    pub(super) calls: Permits,
}

impl AttachedDummies {
    /// No dummy is attached yet.
    pub(super) fn new(store: Arc<Store>, auth_token: Secret, calls_at_once: usize) -> Self {
        Self {
            store,
            auth_token,
            dummies: Mutex::default(),
            connections: OpenConnections::default(),
            calls: Permits::new(calls_at_once),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<u128, Arc<AttachedDummy>>> {
        self.dummies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Detaches a dummy that has ended, or is sent away. Calls that begin later get no answer. Nothing of
    /// the dummy stays once the calls under way have ended.
    pub(super) fn detach(&self, dummy: &AttachedDummy) {
        dummy.let_go();
        self.lock().remove(&dummy.id);
        self.connections.cut_off(dummy.id);
    }
}
