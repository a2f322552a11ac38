mod callers_memory;
mod closed;
mod drain;
mod get_ranges;
mod get_session;
mod get_sessions;
mod hand_over;
mod item;
mod local_pool;
mod memory;
mod mount;
mod mounts;
mod open;
mod pattern;
mod put_session;
mod put_sessions;
mod ranged;
mod refusals;
mod renewal;
mod segment_id;
mod segment_warnings;
mod serving;
mod session;
mod stored_keys;
mod task;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList, process_id};
use mooncake_ops::{
    ExistOp, GetItem, ListOp, ListPageOp, ListedPage, LocateOp, ObjectLocation, PrefetchOp,
    PrefixLenOp, PutOp, RemoveOp, RemoveScanOp,
};
use mooncake_transfer::{HotCacheCounts, View};
use mooncake_types::{ErrorCode, ExistOptions, Prefetch, PutItem, ReplicateConfig, Tenant};

pub use get_ranges::RangedReadSnapshot;
pub use item::{GetTarget, Health, PutSource};
pub use mounts::AllocatedSegment;
pub use ranged::{Fragment, Ranged};
pub use segment_id::parse_segment_id;

use crate::config::StoreConfig;
use crate::open_error::OpenError;
use crate::probe::{ProbeLeases, probe};
use crate::registered_buffers::RegisteredBuffers;
use crate::zero_copy_get::ObjectBytes;
use closed::CLOSED;
use local_pool::LocalPool;
pub use memory::Rooms;
use memory::{Buffers, CallerBuffers, NoMemory, ViewsOrBuffers};
use session::Session;
use stored_keys::StoredKeys;

/// A client of the pool: puts and gets objects, and lends memory if the configuration says so.
///
/// Many threads may use one store at once. Every call works on the caller's own thread, and returns when its work is
/// done. Lists of results are in the order of the arguments. Dropping a store closes it.
///
/// A process forked from the process that opened the store cannot use it: there, all calls find the store closed.
/// Dropping it there changes nothing for the parent.
///
/// Codes that any call on keys may return:
///
/// - [`ErrorCode::InvalidKey`] for a key that is empty or too long;
/// - [`ErrorCode::RpcFail`] and [`ErrorCode::RpcTimeout`] if the master cannot be reached or does not answer;
/// - [`ErrorCode::UnavailableInCurrentStatus`] after [`Store::close`].
///
/// Keys are apart by tenant ([`StoreConfig::tenant`]). A tenant's own keys may be so much shorter than
/// [`MAX_KEY_BYTES`](mooncake_types::limits::MAX_KEY_BYTES) as its name is long, and two bytes more.
pub struct Store {
    /// The tenant whose keys the calls name.
    tenant: Tenant,
    /// Whether this store was opened, and is not the view of one for another tenant.
    is_opened: bool,
    shared: Arc<Shared>,
}

/// What the views of a store for all tenants share.
struct Shared {
    hostname: String,
    allows_copies: bool,
    put_session_ms: u64,
    drain_timeout: Duration,
    buffers: RegisteredBuffers,
    local_pool: LocalPool,
    /// The process that opened the store. A fork of it has the same sockets and none of the threads.
    process: u32,
    session: RwLock<Option<Arc<Session>>>,
}

impl Store {
    /// Joins the pool: connects to the master, takes a port, and lends a segment if the configuration says so.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong. Opening takes no longer than [`StoreConfig::rpc_connect_timeout`], and one
    /// attempt more.
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        Self::open_while(config, || true)
    }

    /// As [`Store::open`]; calls `is_wanted` repeatedly, and gives up once it returns false.
    ///
    /// # Errors
    /// Those of [`Store::open`], and [`OpenError::GivenUp`].
    pub fn open_while(
        config: StoreConfig,
        is_wanted: impl Fn() -> bool + 'static,
    ) -> Result<Store, OpenError> {
        let allows_copies = config.local_buffer_bytes > 0;
        let put_session_ms = config.put_session_timeout.as_millis();
        let put_session_ms = u64::try_from(put_session_ms).unwrap_or(u64::MAX);
        let local_pool = LocalPool::new(config.local_buffer_bytes);
        let (drain_timeout, tenant) = (config.drain_timeout, config.tenant.clone());
        let (session, hostname) = open::open(config, Box::new(is_wanted))?;
        let shared = Shared {
            hostname,
            allows_copies,
            put_session_ms,
            drain_timeout,
            buffers: RegisteredBuffers::default(),
            local_pool,
            process: process_id(),
            session: RwLock::new(Some(Arc::new(session))),
        };
        Ok(Self { tenant, is_opened: true, shared: Arc::new(shared) })
    }

    /// The same store for the keys of another tenant. It shares connections, lent memory and registered buffers. Closing
    /// this store closes all its views; closing or dropping a view changes nothing.
    #[must_use]
    pub fn for_tenant(&self, tenant: Tenant) -> Store {
        Store { tenant, is_opened: false, shared: Arc::clone(&self.shared) }
    }

    /// The tenant whose keys the calls name.
    #[must_use]
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Leaves the pool. The objects in this store's segment are lost, unless other nodes took them over before
    /// ([`StoreConfig::drain_timeout`]). A named segment ([`StoreConfig::segment_path`]) keeps its objects for the
    /// next process with its file. Calls under way end first or fail; later ones are refused. Closing twice does
    /// nothing.
    pub fn close(&self) {
        if !self.is_opened {
            return;
        }
        if self.is_forked() {
            return self.abandon();
        }
        if !self.shared.drain_timeout.is_zero() && self.session().is_some() {
            // If it fails, the log says so.
            let _ = self.hand_over(self.shared.drain_timeout, || true);
        }
        let session =
            self.shared.session.write().expect("no holder of the session panicked").take();
        if let Some(session) = session {
            session.leave();
        }
    }

    /// The name by which others know this process, `host:port`. It also names the segment.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.shared.hostname
    }

    /// Where the HTTP server of this store listens. `None` if it has none, or is closed.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        Some(self.session()?.http.as_ref()?.server().address())
    }

    /// How many objects this store has read from disks of nodes, its own node included.
    #[must_use]
    pub fn disk_reads(&self) -> u64 {
        self.session().map_or(0, |session| session.metrics.disk_reads())
    }

    /// The counters of this store's hot cache; zeros if it has none, or is closed.
    #[must_use]
    pub fn hot_cache_counts(&self) -> HotCacheCounts {
        self.session().map_or_else(HotCacheCounts::default, |it| it.metrics.hot_cache())
    }

    /// Whether the master answers, and no thread of this process has panicked.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.session() {
            Some(_) if mooncake_memory::broken_thread().is_some() => Health::Broken,
            Some(session) if session.heartbeat.is_well() => Health::Ok,
            _ => Health::MasterUnreachable,
        }
    }

    /// Whether calls may copy the caller's bytes first: only a store with a local buffer allows that.
    #[must_use]
    pub fn allows_copies(&self) -> bool {
        self.shared.allows_copies
    }

    /// Puts objects straight from the callers' memory.
    ///
    /// Besides the codes of all calls:
    ///
    /// - [`ErrorCode::ObjectAlreadyExists`] for a key that is taken, also by an earlier item of the same call;
    /// - [`ErrorCode::NoAvailableHandle`] if the pool is full;
    /// - [`ErrorCode::TenantQuotaExceeded`] if the tenant has used up its quota and has nothing to evict;
    /// - [`ErrorCode::TenantNotRegistered`] if the master wants a quota for each tenant, and this one has none;
    /// - [`ErrorCode::InvalidParams`] for no bytes or an invalid configuration;
    /// - [`ErrorCode::TransferFail`] if no node took the bytes.
    pub fn put(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let _call = session.begin("put", items.len());
        let keys = self.stored(items.iter().map(|item| item.key));
        let named = named(items, &keys);
        let put =
            session.driver().drive(PutOp::new(&named, config).patient(session.put_wait_ms), items);
        session.explain_puts(&named, &put);
        put
    }

    /// Puts objects even if their keys are taken. Readers get the whole old object or the whole new one; the old one
    /// stays if the upsert fails. Of items with the same key in one call the last is stored, and all of them get its
    /// result.
    ///
    /// Codes as [`Store::put`], and [`ErrorCode::InvalidParams`] if the object belongs to another group,
    /// [`ErrorCode::ObjectHasReplicationTask`] while it is being copied or moved.
    pub fn upsert(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let _call = session.begin("upsert", items.len());
        let keys = self.stored(items.iter().map(|item| item.key));
        let named = named(items, &keys);
        let upserted = session
            .driver()
            .drive(PutOp::upsert(&named, config).patient(session.put_wait_ms), items);
        session.explain_puts(&named, &upserted);
        session.routes.forget(named.iter().map(|item| item.key));
        upserted
    }

    /// Puts a copy of `value`.
    ///
    /// # Errors
    /// As [`Store::put`], and [`ErrorCode::InvalidParams`] unless [`Store::allows_copies`].
    pub fn put_bytes(
        &self,
        key: &str,
        value: &[u8],
        config: &ReplicateConfig<'_>,
    ) -> Result<(), ErrorCode> {
        if !self.shared.allows_copies {
            return Err(ErrorCode::InvalidParams);
        }
        let copy = Buffer::from_vec(value.to_vec());
        only(self.put(&[PutSource::new(key, SliceList::from(copy.raw()))], config))
    }

    /// Gets objects straight into the callers' memory, and returns their lengths in bytes.
    ///
    /// Besides the codes of all calls:
    ///
    /// - [`ErrorCode::ObjectNotFound`];
    /// - [`ErrorCode::InvalidParams`] if the memory is shorter than the object;
    /// - [`ErrorCode::TransferFail`] if no replica could be read;
    /// - [`ErrorCode::LeaseExpired`] if leases are too short to be used.
    ///
    /// After an error the memory may hold anything.
    pub fn get_into(&self, items: &[GetTarget<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let keys = self.stored(items.iter().map(|item| item.key));
        let named = items.iter().enumerate().map(|(position, item)| {
            GetItem::whole(keys.at(position, item.key), Some(item.dst.total_len()))
        });
        let named: Vec<GetItem<'_>> = named.collect();
        let mut items = items;
        session.get(&named, &mut items)
    }

    /// Gets objects into buffers of their lengths. Codes as [`Store::get_into`], and [`ErrorCode::BufferOverflow`] if
    /// the system has no memory for an object.
    pub fn get(&self, keys: &[&str]) -> Vec<Result<Buffer, ErrorCode>> {
        let closed = || keys.iter().map(|_| Err(CLOSED)).collect();
        let Some(session) = self.session() else { return closed() };
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let named: Vec<GetItem<'_>> = keys.iter().map(|key| GetItem::whole(key, None)).collect();
        let mut buffers = Buffers(keys.iter().map(|_| None).collect());
        let results = session.get(&named, &mut buffers);
        let filled = results.into_iter().zip(buffers.0);
        filled
            .map(|(result, buffer)| result.map(|_| buffer.expect("what was read has a buffer")))
            .collect()
    }

    /// Gets objects as [`Store::get`] does, into memory that `rooms` provides once their lengths are known.
    /// Returns these.
    pub fn get_placed(&self, keys: &[&str], rooms: &mut dyn Rooms) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let named: Vec<GetItem<'_>> = keys.iter().map(|key| GetItem::whole(key, None)).collect();
        session.get(&named, &mut CallerBuffers::new(keys.len(), rooms))
    }

    /// Gets objects as [`Store::get`] does, without a copy where possible. An object of 256 KiB or more in one piece
    /// is shown in place if it lies in a segment of this process. The same holds for mapped segments of other
    /// processes of this host and user.
    pub fn get_bytes(&self, keys: &[&str]) -> Vec<Result<ObjectBytes, ErrorCode>> {
        let closed = || keys.iter().map(|_| Err(CLOSED)).collect();
        let Some(session) = self.session() else { return closed() };
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let named: Vec<GetItem<'_>> = keys.iter().map(|key| GetItem::whole(key, None)).collect();
        let buffers = Buffers(keys.iter().map(|_| None).collect());
        let mut places = ViewsOrBuffers { buffers, views: keys.iter().map(|_| None).collect() };
        let results = session.get(&named, &mut places);
        let found = results.into_iter().zip(places.views).zip(places.buffers.0);
        let bytes = |((result, view), buffer): ((Result<_, _>, Option<View>), Option<Buffer>)| {
            let copied = || buffer.expect("what was read has a buffer").into();
            result.map(|_| view.map_or_else(copied, ObjectBytes::from))
        };
        found.map(bytes).collect()
    }

    /// Whether objects exist and are complete. Those that are get protection from eviction and removal for the length
    /// of a lease.
    pub fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        self.exist_with(keys, ExistOptions::default())
    }

    /// As [`Store::exist`], with these options. A probe counts in no hit ratio.
    pub fn exist_with(&self, keys: &[&str], options: ExistOptions) -> Vec<Result<bool, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("exist", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let answers = session.driver().drive(ExistOp::with(keys, options), NoMemory);
        if !options.probe {
            session.metrics.reads.on_exists(&answers);
        }
        answers
    }

    /// As [`Store::exist`], for a caller that is likely to read what is there: objects that lie on disks only are copied
    /// to memory meanwhile, if the configuration has [`StoreConfig::ssd_prefetch`].
    pub fn exist_prefetching(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        let prefetch = self.session().and_then(|session| session.ssd_prefetch);
        self.exist_with(keys, ExistOptions { prefetch, ..ExistOptions::default() })
    }

    /// Whether objects exist and are complete, without protecting more of them than `leases` says: see [`probe`].
    pub fn probe(&self, keys: &[&str], leases: ProbeLeases) -> Vec<Result<bool, ErrorCode>> {
        probe(keys, leases, |keys, options| self.exist_with(keys, options))
    }

    /// How many objects exist and are complete, from the first key on without a gap. Those from position `leased_from`
    /// on are protected as by [`Store::exist`]; the others are not.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidKey`] if any of the keys is empty or too long, or the codes of all calls.
    pub fn prefix_len(&self, keys: &[&str], leased_from: usize) -> Result<u64, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("prefix_len", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let counted = session.driver().drive(PrefixLenOp::new(keys, leased_from), NoMemory);
        if let Ok(count) = counted {
            session.metrics.reads.on_prefix(count, keys.len());
        }
        counted
    }

    /// Has objects that lie on disks alone copied to memory before they are read. Does not wait for that.
    pub fn prefetch(&self, keys: &[&str]) -> Vec<Result<Prefetch, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("prefetch", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        session.driver().drive(PrefetchOp::new(keys), NoMemory)
    }

    /// An object's length in bytes.
    ///
    /// # Errors
    /// [`ErrorCode::ObjectNotFound`], [`ErrorCode::ReplicaIsNotReady`], or the codes of all calls.
    pub fn size(&self, key: &str) -> Result<u64, ErrorCode> {
        only(self.locate(&[key])).map(|location| location.len)
    }

    /// Where objects lie. Grants leases as [`Store::exist`] does.
    pub fn locate(&self, keys: &[&str]) -> Vec<Result<ObjectLocation, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("locate", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        session.driver().drive(LocateOp::new(keys), NoMemory)
    }

    /// As [`locate`](Self::locate), for a caller that next gets the objects found. A key without an object counts as
    /// a missed get.
    pub fn locate_to_get(&self, keys: &[&str]) -> Vec<Result<ObjectLocation, ErrorCode>> {
        let results = self.locate(keys);
        if let Some(session) = self.session() {
            session.metrics.reads.on_missed_gets(&results);
        }
        results
    }

    /// Removes objects. Besides the codes of all calls: [`ErrorCode::ObjectNotFound`], [`ErrorCode::ObjectHasLease`]
    /// unless `force` is set, [`ErrorCode::ReplicaIsNotReady`] for an object that is being put.
    ///
    /// Once an object is removed, no client reads it any more, and no later master finds it: the nodes have dropped
    /// it. A node that does not answer is asked again until the master knows that it will come back empty. If that
    /// takes longer than the call may, the code is [`ErrorCode::RpcTimeout`], and it is unknown whether the object
    /// is gone for good.
    pub fn remove(&self, keys: &[&str], force: bool) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("remove", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let removed = session.driver().drive(RemoveOp::new(keys, force), NoMemory);
        session.explain("a removal", &removed);
        session.routes.forget(keys.iter().copied());
        removed
    }

    /// Removes all objects, leased ones only if `force` is set. Returns their number.
    ///
    /// # Errors
    /// The codes of all calls. Some objects may have been removed.
    pub fn remove_all(&self, force: bool) -> Result<u64, ErrorCode> {
        self.remove_scanned(None, force)
    }

    /// Removes the objects whose keys match a regular expression, leased ones only if `force` is set. Returns their
    /// number.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for an expression that is refused, which a warning in the log names, or the codes
    /// of all calls. Some objects may have been removed.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, ErrorCode> {
        self.remove_scanned(Some(pattern), force)
    }

    fn remove_scanned(&self, pattern: Option<&str>, force: bool) -> Result<u64, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("remove_scanned", 1);
        let removed = session
            .driver()
            .drive(RemoveScanOp::new(pattern, force).of_tenant(self.tenant.name()), NoMemory);
        session.explain("a removal", [&removed]);
        session.routes.clear();
        pattern::warn_if_refused(pattern, &removed);
        removed
    }

    /// The keys that match a regular expression, and where their objects lie. Grants no lease.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for an expression that is refused, which a warning in the log names, or the codes
    /// of all calls.
    pub fn list_by_regex(&self, pattern: &str) -> Result<Vec<(String, ObjectLocation)>, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("list", 1);
        let listed = session
            .driver()
            .drive(ListOp::new(Some(pattern)).of_tenant(self.tenant.name()), NoMemory);
        pattern::warn_if_refused(Some(pattern), &listed);
        listed
    }

    /// One page of [`Store::list_by_regex`], and the cursor of the next one; zero is the first. A page may be empty
    /// although more follow. Objects that are put or removed between two pages may be listed or not; all others are
    /// listed once.
    ///
    /// # Errors
    /// As there.
    pub fn list_page_by_regex(&self, pattern: &str, cursor: u64) -> Result<ListedPage, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("list", 1);
        let listed = session
            .driver()
            .drive(ListPageOp::new(Some(pattern), cursor).of_tenant(self.tenant.name()), NoMemory);
        pattern::warn_if_refused(Some(pattern), &listed);
        listed
    }

    fn is_forked(&self) -> bool {
        process_id() != self.shared.process
    }

    /// Forgets a session of the parent process without closing its sockets. The session's memory is lost to this
    /// process, which only has a copy of it.
    fn abandon(&self) {
        if let Ok(mut session) = self.shared.session.try_write() {
            std::mem::forget(session.take());
        }
    }

    /// The stored keys of these keys of the caller.
    fn stored<'k>(&self, keys: impl Iterator<Item = &'k str> + Clone) -> StoredKeys {
        StoredKeys::of(&self.tenant, keys)
    }

    fn session(&self) -> Option<Arc<Session>> {
        if self.is_forked() {
            return None;
        }
        self.shared.session.read().expect("no holder of the session panicked").clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("hostname", &self.shared.hostname).finish_non_exhaustive()
    }
}

fn named<'a>(items: &'a [PutSource<'_>], keys: &'a StoredKeys) -> Vec<PutItem<'a>> {
    let named = items.iter().enumerate().map(|(position, item)| PutItem {
        key: keys.at(position, item.key),
        len: item.src.total_len(),
        group: item.group,
        session: item.session,
    });
    named.collect()
}

/// The result of a batch of one.
fn only<T>(results: Vec<Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
    results.into_iter().next().expect("one item has one result")
}
