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
mod refused_puts;
mod renewal;
mod segment_id;
mod segment_warnings;
mod serving;
mod session;
mod task;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use mooncake_memory::{Buffer, SliceList, process_id};
use mooncake_ops::{
    ExistOp, GetItem, ListOp, LocateOp, ObjectLocation, PrefetchOp, PrefixLenOp, PutOp, RemoveOp,
    RemoveScanOp,
};
use mooncake_transfer::{HotCacheCounts, View};
use mooncake_types::{ErrorCode, Prefetch, PutItem, ReplicateConfig};

pub use item::{GetTarget, Health, PutSource};
pub use mounts::AllocatedSegment;
pub use ranged::{Fragment, Ranged};
pub use segment_id::parse_segment_id;

use crate::config::StoreConfig;
use crate::open_error::OpenError;
use crate::registered_buffers::RegisteredBuffers;
use crate::zero_copy_get::ObjectBytes;
use closed::CLOSED;
use local_pool::LocalPool;
pub use memory::MakeRoom;
use memory::{Buffers, NoMemory, Rooms, ViewsOrBuffers};
use session::Session;

/// An open door to the pool: puts and gets objects, and lends memory if it was told to.
///
/// Many threads may use one store at once; every call works on the caller's own thread and returns when its work is
/// done. Lists of results are by position. Dropping a store closes it.
///
/// A process forked from the one that opened the store cannot use it: to it the store is closed, and dropping it there
/// changes nothing for the parent.
///
/// Codes that any call on keys may answer with: [`ErrorCode::InvalidKey`] for a key that is empty or too long,
/// [`ErrorCode::RpcFail`] and [`ErrorCode::RpcTimeout`] if the master cannot be reached or does not answer, and
/// [`ErrorCode::UnavailableInCurrentStatus`] after [`Store::close`].
pub struct Store {
    hostname: String,
    allows_copies: bool,
    put_session_ms: u64,
    drain_timeout: Duration,
    buffers: RegisteredBuffers,
    local_pool: LocalPool,
    /// The process that opened the store. One that was forked from it has the same sockets and none of the threads.
    process: u32,
    session: RwLock<Option<Arc<Session>>>,
}

impl Store {
    /// Joins the pool: connects to the master, takes a port, and lends a segment if the configuration says so.
    ///
    /// # Errors
    /// What is wrong, by name and value; see [`OpenError`]. It takes no longer than
    /// [`StoreConfig::rpc_connect_timeout`] allows, and one attempt more.
    pub fn open(config: StoreConfig) -> Result<Store, OpenError> {
        Self::open_while(config, || true)
    }

    /// As [`Store::open`]; asks again and again whether the store is still wanted, and gives up when it is not.
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
        let drain_timeout = config.drain_timeout;
        let (session, hostname) = open::open(config, Box::new(is_wanted))?;
        Ok(Self {
            hostname,
            allows_copies,
            put_session_ms,
            drain_timeout,
            buffers: RegisteredBuffers::default(),
            local_pool,
            process: process_id(),
            session: RwLock::new(Some(Arc::new(session))),
        })
    }

    /// Leaves the pool. What this store's segment held is lost to the others, as far as they did not take it over before
    /// ([`StoreConfig::drain_timeout`]), unless it is a named one ([`StoreConfig::segment_path`]), which waits for the next
    /// process with its file. Calls that are under way end first or
    /// fail; later ones are refused. Closing twice does nothing.
    pub fn close(&self) {
        if self.is_forked() {
            return self.abandon();
        }
        if !self.drain_timeout.is_zero() && self.session().is_some() {
            // The log says what became of it.
            let _ = self.hand_over(self.drain_timeout, || true);
        }
        let session = self.session.write().expect("no holder of the session panicked").take();
        if let Some(session) = session {
            session.leave();
        }
    }

    /// What others know this process by, `host:port`; it is the name of its segment too.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Where the HTTP server of this store listens, if it has one and is open.
    #[must_use]
    pub fn http_address(&self) -> Option<SocketAddr> {
        Some(self.session()?.http.as_ref()?.server().address())
    }

    /// How many objects this store has read from disks of nodes, its own among them.
    #[must_use]
    pub fn disk_reads(&self) -> u64 {
        self.session().map_or(0, |session| session.metrics.disk_reads())
    }

    /// What this store has counted of its hot cache; zeros if it has none, or is closed.
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

    /// Whether puts that copy the caller's bytes first are allowed: there is a local buffer.
    #[must_use]
    pub fn allows_copies(&self) -> bool {
        self.allows_copies
    }

    /// Puts objects, straight from the callers' memory.
    ///
    /// Besides the codes of all calls: [`ErrorCode::ObjectAlreadyExists`] for a key that is taken, also by an earlier
    /// item of the same call; [`ErrorCode::NoAvailableHandle`] if the pool is full; [`ErrorCode::InvalidParams`] for
    /// no bytes or a configuration that makes no sense; [`ErrorCode::TransferFail`] if no node took the bytes.
    pub fn put(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let named = named(items);
        let put = session.ways().drive(PutOp::new(&named, config), items);
        session.explain(&named, &put);
        put
    }

    /// Puts objects whether or not their keys are taken: readers get the old object or the new one, whole, and the old
    /// one stays if the upsert fails. Of items of one key in one call the last is stored, and its result is that of all
    /// of them.
    ///
    /// Codes as [`Store::put`], and [`ErrorCode::InvalidParams`] for another group than the object has,
    /// [`ErrorCode::ObjectHasReplicationTask`] while it is being copied or moved.
    pub fn upsert(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let named = named(items);
        let upserted = session.ways().drive(PutOp::upsert(&named, config), items);
        session.explain(&named, &upserted);
        session.routes.forget(items.iter().map(|item| item.key));
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
        if !self.allows_copies {
            return Err(ErrorCode::InvalidParams);
        }
        let copy = Buffer::from_vec(value.to_vec());
        only(self.put(&[PutSource::new(key, SliceList::from(copy.raw()))], config))
    }

    /// Gets objects, straight into the callers' memory; gives their lengths in bytes.
    ///
    /// Besides the codes of all calls: [`ErrorCode::ObjectNotFound`]; [`ErrorCode::InvalidParams`] if the memory is
    /// shorter than the object; [`ErrorCode::TransferFail`] if no replica could be read;
    /// [`ErrorCode::LeaseExpired`] if leases are too short to be used. After an error the memory may hold anything.
    pub fn get_into(&self, items: &[GetTarget<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let named: Vec<GetItem<'_>> =
            items.iter().map(|item| GetItem::whole(item.key, Some(item.dst.total_len()))).collect();
        let mut items = items;
        session.get(&named, &mut items)
    }

    /// Gets objects into buffers of their lengths. Codes as [`Store::get_into`], and [`ErrorCode::BufferOverflow`] if
    /// the system has no memory for an object.
    pub fn get(&self, keys: &[&str]) -> Vec<Result<Buffer, ErrorCode>> {
        let closed = || keys.iter().map(|_| Err(CLOSED)).collect();
        let Some(session) = self.session() else { return closed() };
        let named: Vec<GetItem<'_>> = keys.iter().map(|key| GetItem::whole(key, None)).collect();
        let mut buffers = Buffers(keys.iter().map(|_| None).collect());
        let results = session.get(&named, &mut buffers);
        let filled = results.into_iter().zip(buffers.0);
        filled
            .map(|(result, buffer)| result.map(|_| buffer.expect("what was read has a buffer")))
            .collect()
    }

    /// Gets objects as [`Store::get`] does, into memory that `make_room` provides when their lengths are known; gives these.
    pub fn get_placed(
        &self,
        keys: &[&str],
        make_room: &mut MakeRoom<'_>,
    ) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let named: Vec<GetItem<'_>> = keys.iter().map(|key| GetItem::whole(key, None)).collect();
        session.get(&named, &mut Rooms::new(keys.len(), make_room))
    }

    /// Gets objects as [`Store::get`] does, without a copy where that is possible: one of 256 KiB and more that lies in one
    /// piece in a segment of this process, or of another of this host and user that is mapped here, is seen where it lies.
    pub fn get_bytes(&self, keys: &[&str]) -> Vec<Result<ObjectBytes, ErrorCode>> {
        let closed = || keys.iter().map(|_| Err(CLOSED)).collect();
        let Some(session) = self.session() else { return closed() };
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

    /// Whether objects exist, complete. Protects those that do from eviction and removal for the length of a lease.
    pub fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let answers = session.ways().drive(ExistOp::new(keys), NoMemory);
        session.metrics.reads.on_exists(&answers);
        answers
    }

    /// How many objects exist, complete, from the first key on without a gap. Protects those that it counts as
    /// [`Store::exist`] does.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidKey`] if any of the keys is none that the store takes, or the codes of all calls.
    pub fn prefix_len(&self, keys: &[&str]) -> Result<u64, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let counted = session.ways().drive(PrefixLenOp::new(keys), NoMemory);
        if let Ok(count) = counted {
            session.metrics.reads.on_prefix(count, keys.len());
        }
        counted
    }

    /// Has objects that lie on disks alone brought to memory, before they are read. Waits for nothing.
    pub fn prefetch(&self, keys: &[&str]) -> Vec<Result<Prefetch, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        session.ways().drive(PrefetchOp::new(keys), NoMemory)
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
        session.ways().drive(LocateOp::new(keys), NoMemory)
    }

    /// As [`locate`](Self::locate), for a caller that gets next what it finds: a key without an object counts as a miss.
    pub fn locate_to_get(&self, keys: &[&str]) -> Vec<Result<ObjectLocation, ErrorCode>> {
        let results = self.locate(keys);
        if let Some(session) = self.session() {
            session.metrics.reads.on_missed_gets(&results);
        }
        results
    }

    /// Removes objects. Besides the codes of all calls: [`ErrorCode::ObjectNotFound`],
    /// [`ErrorCode::ObjectHasLease`] unless `force` is set, [`ErrorCode::ReplicaIsNotReady`] for one that is being put.
    ///
    /// When this returns no client reads what was removed any more, and no later master finds it. For that the nodes drop
    /// it. One that does not answer is asked until the master knows that it will come back empty;
    /// [`ErrorCode::RpcTimeout`] if that takes longer than the call may: whether the objects are gone for good is unknown then.
    pub fn remove(&self, keys: &[&str], force: bool) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let removed = session.ways().drive(RemoveOp::new(keys, force), NoMemory);
        session.routes.forget(keys.iter().copied());
        removed
    }

    /// Removes all objects, leased ones only if `force` is set; gives their number.
    ///
    /// # Errors
    /// The codes of all calls; a part may have been removed.
    pub fn remove_all(&self, force: bool) -> Result<u64, ErrorCode> {
        self.remove_scanned(None, force)
    }

    /// Removes the objects whose keys a regular expression finds, leased ones only if `force` is set; gives their
    /// number.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for an expression that is not taken, which a warning in the log names; the codes of
    /// all calls; a part may have been
    /// removed.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, ErrorCode> {
        self.remove_scanned(Some(pattern), force)
    }

    fn remove_scanned(&self, pattern: Option<&str>, force: bool) -> Result<u64, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let removed = session.ways().drive(RemoveScanOp::new(pattern, force), NoMemory);
        session.routes.clear();
        pattern::warn_if_refused(pattern, &removed);
        removed
    }

    /// The keys that a regular expression finds, and where their objects lie. Grants no lease.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for an expression that is not taken, which a warning in the log names; the codes of
    /// all calls.
    pub fn list_by_regex(&self, pattern: &str) -> Result<Vec<(String, ObjectLocation)>, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let listed = session.ways().drive(ListOp::new(Some(pattern)), NoMemory);
        pattern::warn_if_refused(Some(pattern), &listed);
        listed
    }

    fn is_forked(&self) -> bool {
        process_id() != self.process
    }

    /// Lets go of a session that belongs to the parent process, without saying goodbye on its sockets. What it
    /// has in memory is lost to this process, which is a copy anyway.
    fn abandon(&self) {
        if let Ok(mut session) = self.session.try_write() {
            std::mem::forget(session.take());
        }
    }

    fn session(&self) -> Option<Arc<Session>> {
        if self.is_forked() {
            return None;
        }
        self.session.read().expect("no holder of the session panicked").clone()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

fn named<'a>(items: &[PutSource<'a>]) -> Vec<PutItem<'a>> {
    let named = items.iter().map(|item| PutItem {
        key: item.key,
        len: item.src.total_len(),
        group: item.group,
    });
    named.collect()
}

/// The result of a batch of one.
fn only<T>(results: Vec<Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
    results.into_iter().next().expect("one item has one result")
}
