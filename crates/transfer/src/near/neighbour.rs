use std::collections::HashMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooncake_connection::{Connection, Fault, IdleConnections};
use mooncake_memory::{Interest, Private, Wait, peer_of, poll_sockets, recv_bytes, spawn_unpinned};
use mooncake_types::{ErrorCode, SegmentId};
use mooncake_wire::{Kind, LocalSocket, Welcome, decode_share_reply, encode_share};

use super::failed_questions::FailedQuestions;
use super::pins::Pinning;
use super::segment::{NearRead, NearSegment};
use crate::{ReadOp, TcpConfig, client, local_socket};

/// Stack of the thread that watches one node.
const STACK_BYTES: usize = 64 << 10;

/// Most segments of one node that are mapped; further ones are read by message.
const MAX_SEGMENTS: usize = 1024;

/// How long to wait for readers of a segment before its memory is unmapped.
const READER_PATIENCE: Duration = Duration::from_secs(1);

/// How often segments that the node has closed are searched for, to unmap them.
const PRUNE: Duration = Duration::from_secs(1);

/// Most idle connections to one node.
const MAX_IDLE: usize = 8;

/// A node on this host, of this user, for as long as its process lives.
pub(super) struct Neighbour {
    /// Its local socket as an endpoint.
    pub(super) endpoint: Arc<str>,
    pub(super) pid: Option<i32>,
    config: Arc<TcpConfig>,
    state: Arc<NeighbourState>,
    /// A connection without traffic, which breaks when the node's process ends.
    tether: Arc<Private<TcpStream>>,
    /// Whether the kernel copies memory of the node's process; true until it refuses.
    kernel_copies: AtomicBool,
    /// Held while a segment is being asked for, so that it is mapped once.
    asking: Mutex<()>,
    doubts: RwLock<FailedQuestions>,
    pub(super) pinning: Pinning,
}

/// The state of the node while it lives.
struct NeighbourState {
    alive: AtomicBool,
    /// Idle connections; closed when the node is gone.
    idle: IdleConnections,
    /// `None` for a segment that can only be reached by message.
    segments: RwLock<HashMap<SegmentId, Option<Arc<NearSegment>>>>,
}

impl Neighbour {
    /// Connects, checks that the same node answers, and begins to watch it. Calls `gone` with its endpoint once it is
    /// gone.
    pub(super) fn meet(
        socket: &LocalSocket,
        config: &Arc<TcpConfig>,
        gone: impl FnOnce(&str) + Send + 'static,
    ) -> Result<Neighbour, Fault> {
        let endpoint: Arc<str> = local_socket::endpoint_of(socket).into();
        let (connection, welcome) = open(&endpoint, config)?;
        if welcome.local_socket.as_ref() != Some(socket) {
            return Err(Fault::Protocol("another node answers on its local socket".to_owned()));
        }
        let tether = connection.into_stream();
        tether.set_read_timeout(Some(PRUNE))?;
        let pid = peer_of(tether.as_fd()).ok().and_then(|peer| peer.pid);
        let state = Arc::new(NeighbourState {
            alive: AtomicBool::new(true),
            idle: IdleConnections::new(MAX_IDLE),
            segments: RwLock::default(),
        });
        let (watched, name) = (Arc::clone(&state), Arc::clone(&endpoint));
        let socket = Arc::clone(&tether);
        let thread = Builder::new().name("mooncake-near".to_owned()).stack_size(STACK_BYTES);
        spawn_unpinned(thread, move || {
            watch(&socket, &watched);
            // A node that sends something, which none does, is left too.
            let _ = socket.shutdown(Shutdown::Both);
            watched.alive.store(false, Ordering::Release);
            gone(&name);
            watched.close();
        })?;
        Ok(Neighbour {
            endpoint,
            pid,
            config: Arc::clone(config),
            state,
            tether,
            kernel_copies: AtomicBool::new(true),
            asking: Mutex::default(),
            doubts: RwLock::default(),
            pinning: Pinning::default(),
        })
    }

    /// Whether the node's process lives, as far as its socket tells.
    pub(super) fn is_alive(&self) -> bool {
        self.state.alive.load(Ordering::Acquire)
    }

    /// A segment, which the first call maps. `None` if it can only be reached by message.
    pub(super) fn segment(&self, id: SegmentId) -> Option<Arc<NearSegment>> {
        if let Some(found) = self.state.segment(id) {
            return found.filter(|segment| !segment.is_closed());
        }
        // Checked first, so that no call waits for the lock only to ask nothing.
        if !self.may_ask_for(id) {
            return None;
        }
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.state.segment(id) {
            return found;
        }
        if !self.may_ask_for(id) {
            return None;
        }
        let asked = self.ask_for(id);
        let mut doubts = self.doubts.write().unwrap_or_else(PoisonError::into_inner);
        match asked {
            Ok(Ok(segment)) => self.state.keep(id, segment),
            // The node does not lend it, or not yet: asked for again later, as after a broken socket.
            Ok(Err(code)) => {
                tracing::debug!(segment = %id, %code, "a segment of this host is not shared");
                doubts.doubt_segment(id, Instant::now());
                None
            }
            Err(fault) => {
                tracing::debug!(segment = %id, ?fault, "a segment of this host is not shared");
                doubts.doubt_node(Instant::now());
                None
            }
        }
    }

    fn may_ask_for(&self, id: SegmentId) -> bool {
        let doubts = self.doubts.read().unwrap_or_else(PoisonError::into_inner);
        !doubts.cover(id, Instant::now()) && !self.state.is_full()
    }

    /// Reads a range of a segment by a copy that the kernel makes, if it does. The result counts only if the node is
    /// alive afterwards: another process may have got its id.
    pub(super) fn read_by_kernel(&self, segment: &NearSegment, op: &ReadOp) -> NearRead {
        let may = self.kernel_copies.load(Ordering::Relaxed);
        let Some(pid) = self.pid.filter(|_| may) else { return NearRead::Unknown };
        match segment.read_by_kernel(op, pid) {
            Ok(look) => look,
            // Memory of one side is not accessible: the node will say.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => NearRead::Unknown,
            Err(error) => {
                tracing::info!(pid, %error, "the kernel copies no memory of this process");
                self.kernel_copies.store(false, Ordering::Relaxed);
                NearRead::Unknown
            }
        }
    }

    /// Like [`Neighbour::is_alive`], but checks the socket now.
    pub(super) fn is_alive_now(&self) -> bool {
        let read = Interest { read: true, write: false };
        let mut sockets = [(self.tether.as_fd(), read)];
        let polled = poll_sockets(&mut sockets, Duration::ZERO);
        polled.is_ok() && !sockets[0].1.read && self.is_alive()
    }

    fn ask_for(&self, id: SegmentId) -> Result<Result<Option<Arc<NearSegment>>, ErrorCode>, Fault> {
        let mut connection = self.connection()?;
        let encode = |out: &mut Vec<u8>, request| encode_share(out, request, id);
        let shared = match decode_share_reply(&connection.call(encode, Kind::ShareReply)?)? {
            Ok(shared) => shared,
            Err(code) => {
                self.give_back(connection);
                return Ok(Err(code));
            }
        };
        let descriptors = connection.take_descriptors();
        self.give_back(connection);
        let mapped = NearSegment::map(&shared, descriptors, self.config.verify_reads).map(Arc::new);
        Ok(Ok(mapped
            .inspect_err(|error| {
                tracing::warn!(segment = %id, %error, "a segment of this host cannot be mapped");
            })
            .ok()))
    }

    /// An idle connection, or a new one.
    pub(super) fn connection(&self) -> Result<Connection, Fault> {
        self.state.idle.take(false).map_or_else(|| self.new_connection(), Ok)
    }

    /// A new connection.
    pub(super) fn new_connection(&self) -> Result<Connection, Fault> {
        open(&self.endpoint, &self.config).map(|(connection, _)| connection)
    }

    /// Takes back a connection that is between two questions.
    pub(super) fn give_back(&self, connection: Connection) {
        self.state.idle.give_back(connection);
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // Ends the thread that watches.
        let _ = self.tether.shutdown(Shutdown::Both);
    }
}

impl NeighbourState {
    fn is_full(&self) -> bool {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).len() >= MAX_SEGMENTS
    }

    fn segment(&self, id: SegmentId) -> Option<Option<Arc<NearSegment>>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn keep(&self, id: SegmentId, segment: Option<Arc<NearSegment>>) -> Option<Arc<NearSegment>> {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        // Checked under the lock: `alive` becomes false before the map is cleared.
        if !self.alive.load(Ordering::Acquire) {
            return None;
        }
        segments.insert(id, segment.clone());
        segment
    }

    fn prune(&self) {
        let is_closed = |segment: &Option<Arc<NearSegment>>| {
            segment.as_ref().is_some_and(|segment| segment.is_closed())
        };
        let known = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let any = known.values().any(is_closed);
        drop(known);
        if any {
            let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
            let closed = segments.extract_if(|_, segment| is_closed(segment));
            let closed: Vec<_> = closed.filter_map(|(_, segment)| segment).collect();
            drop(segments);
            closed.into_iter().for_each(let_go);
        }
    }

    /// Closes the connections and unmaps the segments of a node that is gone. `alive` is false already.
    fn close(&self) {
        let mut held = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        let segments = std::mem::take(&mut *held);
        drop(held);
        self.idle.close();
        segments.into_values().flatten().for_each(let_go);
    }
}

/// Connects to a local socket. Its calls have the same time limits as over TCP.
fn open(endpoint: &str, config: &TcpConfig) -> Result<(Connection, Welcome), Fault> {
    let (mut connection, welcome) = client::open(endpoint, config, &config.dialer())?;
    connection.set_timeout(config.transfer_timeout.min(config.silence_timeout))?;
    Ok((connection, welcome))
}

/// Waits for readers of a segment, so that this thread unmaps it. Unmapping much memory takes seconds, and a reader
/// must not spend them.
fn let_go(segment: Arc<NearSegment>) {
    let deadline = Instant::now() + READER_PATIENCE;
    while Arc::strong_count(&segment) > 1 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until the node's process ends, or sends something, which it never does. Then its memory must be unmapped:
/// the system keeps memory for as long as any process maps it.
fn watch(socket: &TcpStream, state: &NeighbourState) {
    let hear = || recv_bytes(socket.as_fd(), &mut [0], Wait::Block);
    while hear().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        state.prune();
    }
}
