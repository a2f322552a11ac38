use std::path::Path;
use std::time::Duration;

use mooncake_memory::Buffer;
use mooncake_ops::ObjectLocation;
use mooncake_types::{ErrorCode, PutItem, ReplicateConfig, SegmentId, TaskId, TaskReport};

use crate::dummy::DummyStore;
use crate::store::{AllocatedSegments, GetTarget, Health, MakeRoom, PutSource, Ranged, Store};
use crate::zero_copy_get::ObjectBytes;

/// A result for each item of a batch, by position.
type Results<T> = Vec<Result<T, ErrorCode>>;

/// What a dummy answers to a call that needs a store of its own: sessions, tasks, segments.
const NOT_A_DUMMYS: ErrorCode = ErrorCode::InvalidParams;

/// Either way into the pool: a store of this process, or a dummy that uses that of another. Every call is that of the
/// same name of [`Store`]; a dummy answers [`ErrorCode::InvalidParams`] to those that need a store of their own.
#[derive(Debug)]
pub enum Door {
    /// A store of this process.
    Store(Box<Store>),
    /// A dummy.
    Dummy(Box<DummyStore>),
}

impl From<Store> for Door {
    fn from(store: Store) -> Self {
        Self::Store(Box::new(store))
    }
}

impl From<DummyStore> for Door {
    fn from(dummy: DummyStore) -> Self {
        Self::Dummy(Box::new(dummy))
    }
}

/// Calls that both kinds have.
macro_rules! both {
    ($($(#[$doc:meta])* fn $name:ident(&$self:ident $(, $argument:ident: $kind:ty)*) $(-> $answer:ty)?;)*) => {
        impl Door {
            $($(#[$doc])* pub fn $name(&$self $(, $argument: $kind)*) $(-> $answer)? {
                match $self {
                    Door::Store(store) => store.$name($($argument),*),
                    Door::Dummy(dummy) => dummy.$name($($argument),*),
                }
            })*
        }
    };
}

both! {
    /// See [`Store::close`].
    fn close(&self);
    /// See [`Store::hostname`]; that of the host process for a dummy.
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
    /// See [`Store::get`].
    fn get(&self, keys: &[&str]) -> Results<Buffer>;
    /// See [`Store::get_placed`].
    fn get_placed(&self, keys: &[&str], make_room: &mut MakeRoom<'_>) -> Results<u64>;
    /// See [`Store::get_ranges`].
    fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Results<u64>>;
    /// See [`Store::exist`].
    fn exist(&self, keys: &[&str]) -> Results<bool>;
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
    /// See [`Store::list_by_regex`].
    fn list_by_regex(&self, pattern: &str) -> Result<Vec<(String, ObjectLocation)>, ErrorCode>;
    /// See [`Store::register`].
    fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode>;
    /// See [`Store::unregister`].
    fn unregister(&self, ptr: usize) -> Result<(), ErrorCode>;
    /// See [`Store::check_registered`].
    fn check_registered(&self, ptr: usize, len: usize) -> Result<(), ErrorCode>;
    /// See [`Store::alloc_from_mem_pool`].
    fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize>;
    /// See [`Store::free_to_mem_pool`].
    fn free_to_mem_pool(&self, address: usize) -> bool;
    /// See [`Store::local_buffer_bytes`].
    fn local_buffer_bytes(&self) -> u64;
}

impl Door {
    /// The store, if it is one of this process.
    #[must_use]
    pub fn store(&self) -> Option<&Store> {
        match self {
            Self::Store(store) => Some(store),
            Self::Dummy(_) => None,
        }
    }

    fn own(&self) -> Result<&Store, ErrorCode> {
        self.store().ok_or(NOT_A_DUMMYS)
    }

    fn batch<T: Clone>(&self, count: usize, call: impl FnOnce(&Store) -> Results<T>) -> Results<T> {
        self.store().map_or_else(|| vec![Err(NOT_A_DUMMYS); count], call)
    }

    /// See [`Store::get_bytes`]. A dummy copies.
    pub fn get_bytes(&self, keys: &[&str]) -> Results<ObjectBytes> {
        match self {
            Self::Store(store) => store.get_bytes(keys),
            Self::Dummy(dummy) => {
                dummy.get(keys).into_iter().map(|copy| copy.map(ObjectBytes::from)).collect()
            }
        }
    }

    /// See [`Store::get_session_start`].
    pub fn get_session_start(&self, keys: &[&str]) -> Results<u64> {
        self.batch(keys.len(), |store| store.get_session_start(keys))
    }

    /// See [`Store::get_session_read`].
    pub fn get_session_read(&self, items: &[Ranged<'_>]) -> Results<u64> {
        self.batch(items.len(), |store| store.get_session_read(items))
    }

    /// See [`Store::get_session_end`].
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a dummy.
    pub fn get_session_end(&self, keys: &[&str]) -> Result<(), ErrorCode> {
        self.own().map(|store| store.get_session_end(keys))
    }

    /// See [`Store::put_session_start`].
    pub fn put_session_start(
        &self,
        items: &[PutItem<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Results<()> {
        self.batch(items.len(), |store| store.put_session_start(items, config))
    }

    /// See [`Store::put_session_write`].
    pub fn put_session_write(&self, items: &[Ranged<'_>]) -> Results<u64> {
        self.batch(items.len(), |store| store.put_session_write(items))
    }

    /// See [`Store::put_session_end`].
    pub fn put_session_end(&self, keys: &[&str]) -> Results<()> {
        self.batch(keys.len(), |store| store.put_session_end(keys))
    }

    /// See [`Store::put_session_revoke`].
    pub fn put_session_revoke(&self, keys: &[&str]) -> Results<()> {
        self.batch(keys.len(), |store| store.put_session_revoke(keys))
    }

    /// See [`Store::create_copy_task`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn create_copy_task(&self, key: &str, targets: &[&str]) -> Result<TaskId, ErrorCode> {
        self.own()?.create_copy_task(key, targets)
    }

    /// See [`Store::create_move_task`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn create_move_task(
        &self,
        key: &str,
        source: &str,
        target: &str,
    ) -> Result<TaskId, ErrorCode> {
        self.own()?.create_move_task(key, source, target)
    }

    /// See [`Store::query_task`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn query_task(&self, id: TaskId) -> Result<TaskReport, ErrorCode> {
        self.own()?.query_task(id)
    }

    /// See [`Store::mount_segment`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn mount_segment(
        &self,
        path: &Path,
        len_bytes: u64,
        offset: u64,
        location: &str,
    ) -> Result<Vec<SegmentId>, ErrorCode> {
        self.own()?.mount_segment(path, len_bytes, offset, location)
    }

    /// See [`Store::allocate_and_mount_segment`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn allocate_and_mount_segment(
        &self,
        len_bytes: u64,
        location: &str,
    ) -> Result<AllocatedSegments, ErrorCode> {
        self.own()?.allocate_and_mount_segment(len_bytes, location)
    }

    /// See [`Store::hand_over`], without an early end but that by [`Store::close`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn hand_over(&self, patience: Duration) -> Result<(), ErrorCode> {
        self.own()?.hand_over(patience, || true)
    }

    /// See [`Store::unmount_segment`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn unmount_segment(&self, ids: &[SegmentId], grace: Duration) -> Result<(), ErrorCode> {
        self.own()?.unmount_segment(ids, grace)
    }

    /// See [`Store::unmount_and_free_segment`].
    ///
    /// # Errors
    /// As there, and [`ErrorCode::InvalidParams`] for a dummy.
    pub fn unmount_and_free_segment(
        &self,
        ids: &[SegmentId],
        grace: Duration,
    ) -> Result<(), ErrorCode> {
        self.own()?.unmount_and_free_segment(ids, grace)
    }
}
