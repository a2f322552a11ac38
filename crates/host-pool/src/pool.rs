use std::ops::Deref;

use mooncake_client::{OpenError, Store, StoreConfig};

use crate::HostPoolAddress;
use crate::folder;
use crate::own_master::OwnMaster;

/// A store of a pool of this host, and the part of the pool's master that its process runs. All calls but
/// [`HostPool::close`] are those of [`Store`].
#[derive(Debug)]
pub struct HostPool {
    /// It leaves before the master goes.
    store: Store,
    master: OwnMaster,
}

impl HostPool {
    /// Joins the pool at this address, or begins it. Of the configuration the master, the ports and the addresses to listen on
    /// mean nothing.
    ///
    /// # Errors
    /// Those of [`Store::open`], and [`OpenError::PoolFolder`].
    pub fn open(address: &HostPoolAddress, config: StoreConfig) -> Result<Self, OpenError> {
        Self::open_while(address, config, || true)
    }

    /// As [`HostPool::open`]; see [`Store::open_while`].
    ///
    /// # Errors
    /// Those of [`HostPool::open`], and [`OpenError::GivenUp`].
    pub fn open_while(
        address: &HostPoolAddress,
        config: StoreConfig,
        is_wanted: impl Fn() -> bool + 'static,
    ) -> Result<Self, OpenError> {
        let coordinator = address.folder().map(|at| folder::coordinator(at, &config.cluster_id));
        let coordinator = coordinator.transpose()?;
        let master = OwnMaster::start(&config, coordinator.clone())?;
        let config = StoreConfig {
            master: coordinator.unwrap_or_else(|| master.endpoint().to_owned()),
            only_this_host: true,
            ..config
        };
        let store = Store::open_while(config, is_wanted)?;
        Ok(Self { store, master })
    }

    /// As [`Store::close`]. If the master of this process leads, that of another takes over.
    pub fn close(&self) {
        self.store.close();
        self.master.stop();
    }
}

impl Deref for HostPool {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}
