use mooncake_client::{
    ErrorCode, GetTarget, Health, KnownMemory, ObjectBytes, ObjectLocation, ProbeLeases, PutSource,
    Ranged, ReplicateConfig, Rooms, Store,
};
use mooncake_dummy::DummyStore;
use mooncake_host_pool::HostPool;

/// A result for each item of a batch, by position.
type Results<T> = Vec<Result<T, ErrorCode>>;

/// A client of the pool. Every method is the method of the same name of [`Store`], [`HostPool`] or [`DummyStore`].
#[derive(Debug)]
pub enum PoolClient {
    /// A store of this process, in a pool with a master.
    Store(Box<Store>),
    /// A store of this process, in a pool without a master.
    HostPool(Box<HostPool>),
    /// A dummy: it uses the store of another process of this host.
    Dummy(Box<DummyStore>),
}

impl From<Store> for PoolClient {
    fn from(store: Store) -> Self {
        Self::Store(Box::new(store))
    }
}

impl From<HostPool> for PoolClient {
    fn from(pool: HostPool) -> Self {
        Self::HostPool(Box::new(pool))
    }
}

impl From<DummyStore> for PoolClient {
    fn from(dummy: DummyStore) -> Self {
        Self::Dummy(Box::new(dummy))
    }
}

/// Declares methods that forward to the variant's own method.
macro_rules! all_kinds {
    ($($(#[$doc:meta])* fn $name:ident(&$self:ident $(, $argument:ident: $kind:ty)*) $(-> $answer:ty)?;)*) => {
        impl PoolClient {
            $($(#[$doc])* pub fn $name(&$self $(, $argument: $kind)*) $(-> $answer)? {
                match $self {
                    PoolClient::Store(store) => store.$name($($argument),*),
                    PoolClient::HostPool(pool) => pool.$name($($argument),*),
                    PoolClient::Dummy(dummy) => dummy.$name($($argument),*),
                }
            })*
        }
    };
}

all_kinds! {
    /// See [`Store::close`].
    fn close(&self);
    /// See [`Store::hostname`]; for a dummy, the hostname of the host process.
    fn hostname(&self) -> &str;
    /// See [`Store::health`].
    fn health(&self) -> Health;
    /// See [`Store::allows_copies`].
    fn allows_copies(&self) -> bool;
    /// See [`Store::put`].
    fn put(&self, items: &[PutSource<'_>], config: &ReplicateConfig<'_>) -> Results<()>;
    /// See [`Store::upsert`].
    fn upsert(&self, items: &[PutSource<'_>], config: &ReplicateConfig<'_>) -> Results<()>;
    /// See [`Store::get_into`].
    fn get_into(&self, items: &[GetTarget<'_>]) -> Results<u64>;
    /// See [`Store::get_placed`].
    fn get_placed(&self, keys: &[&str], rooms: &mut dyn Rooms) -> Results<u64>;
    /// See [`Store::get_ranges`].
    fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Results<u64>>;
    /// See [`Store::exist`].
    fn exist(&self, keys: &[&str]) -> Results<bool>;
    /// See [`Store::exist_prefetching`].
    fn exist_prefetching(&self, keys: &[&str]) -> Results<bool>;
    /// See [`Store::probe`].
    fn probe(&self, keys: &[&str], leases: ProbeLeases) -> Results<bool>;
    /// See [`Store::prefix_len`].
    fn prefix_len(&self, keys: &[&str], leased_from: usize) -> Result<u64, ErrorCode>;
    /// See [`Store::size`].
    fn size(&self, key: &str) -> Result<u64, ErrorCode>;
    /// See [`Store::locate`].
    fn locate(&self, keys: &[&str]) -> Results<ObjectLocation>;
    /// See [`Store::remove`].
    fn remove(&self, keys: &[&str], force: bool) -> Results<()>;
    /// See [`Store::clear_replicas`].
    fn clear_replicas(&self, keys: &[&str], segment: &str) -> Results<()>;
    /// See [`Store::remove_all`].
    fn remove_all(&self, force: bool) -> Result<u64, ErrorCode>;
    /// See [`Store::remove_by_regex`].
    fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, ErrorCode>;
    /// See [`Store::register`].
    fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode>;
    /// See [`Store::unregister`].
    fn unregister(&self, ptr: usize) -> Result<(), ErrorCode>;
    /// See [`Store::check_registered`].
    fn check_registered(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode>;
    /// See [`Store::alloc_from_mem_pool`].
    fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize>;
    /// See [`Store::free_to_mem_pool`].
    fn free_to_mem_pool(&self, address: usize) -> bool;
    /// See [`Store::local_buffer_bytes`].
    fn local_buffer_bytes(&self) -> u64;
}

impl PoolClient {
    /// The store of this process; `None` for a dummy.
    pub fn own(&self) -> Option<&Store> {
        match self {
            Self::Store(store) => Some(store),
            Self::HostPool(pool) => Some(pool),
            Self::Dummy(_) => None,
        }
    }

    /// See [`Store::get_bytes`]. A dummy copies the bytes.
    pub fn get_bytes(&self, keys: &[&str]) -> Results<ObjectBytes> {
        match self {
            Self::Store(store) => store.get_bytes(keys),
            Self::HostPool(pool) => pool.get_bytes(keys),
            Self::Dummy(dummy) => {
                dummy.get(keys).into_iter().map(|copy| copy.map(ObjectBytes::from)).collect()
            }
        }
    }
}
