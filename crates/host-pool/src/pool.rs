use std::ops::Deref;

use mooncake_client::{OpenError, Store, StoreConfig};

use crate::HostPoolAddress;
use crate::folder;
use crate::own_master::OwnMaster;

/// A store in a pool of one host, with the master that this process contributes. It has the calls of [`Store`], and
/// its own [`HostPool::close`].
#[derive(Debug)]
pub struct HostPool {
    /// Dropped before the master, so that it can unmount.
    store: Store,
    master: OwnMaster,
}

impl HostPool {
    /// Joins the pool at this address, or starts it. The configuration's master, ports and listen addresses are
    /// ignored.
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

    /// Closes the store, and stops this process's master. If that one leads, another process's master takes over.
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
