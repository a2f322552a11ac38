use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_connection::{Connection, Dialer, Fault, IdleConnections};
use mooncake_fabric::{Address, ConnectError, Domain, Initiator, Peer, RemoteMemory};
use mooncake_memory::RemoteSlots;
use mooncake_types::SegmentId;
use mooncake_types::limits::time_to_move_ms;
use mooncake_wire::{
    Kind, RemoteSegment, Shared, TransportDescriptor, decode_join_reply, decode_share_reply,
    encode_join, encode_share,
};

use crate::{TcpConfig, TransferError, client};

/// Most segments of one node that are remembered; further ones are read by message.
const MAX_SEGMENTS: usize = 1024;

/// Most idle connections to one node.
const MAX_IDLE: usize = 8;

/// Most endpoints of one node, for writers, that are remembered.
const MAX_WRITERS: usize = 64;

/// A segment that is not lent is asked for again after this long.
const DOUBT: Duration = Duration::from_secs(1);

/// A node that is not reached by all NICs is greeted anew this often, should they work by then.
const DOUBT_OF_WAYS: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// A peer that takes no request for this long, and the time that the bytes need, is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node that this process reaches one-sided. One endpoint of this process is for this node alone: when a request
/// takes too long, no other node is concerned.
pub(super) struct FarPeer {
    endpoint: Arc<str>,
    /// What it offered.
    offer: TransportDescriptor,
    config: Arc<TcpConfig>,
    dialer: Dialer,
    // Peers go before their endpoint.
    pub(super) readers: Arc<Peer>,
    writers: Mutex<Vec<(Bytes, Arc<Peer>)>>,
    initiator: Initiator,
    /// As long as it lasts, the node serves the readers' end of a connection, where ends are joined in pairs.
    _joined: Option<Mutex<Connection>>,
    idle: IdleConnections,
    /// Held while a segment is being asked for.
    asking: Mutex<()>,
    segments: RwLock<HashMap<SegmentId, KnownSegment>>,
    is_lost: AtomicBool,
    met: Instant,
    /// Whether each connection to the node has an end of its own.
    joins_in_pairs: bool,
}

/// How connections to a node are opened.
struct ToNode<'a> {
    endpoint: &'a Arc<str>,
    offer: &'a TransportDescriptor,
    config: &'a TcpConfig,
    dialer: &'a Dialer,
}

impl ToNode<'_> {
    fn open(&self) -> Result<Connection, Fault> {
        let (mut connection, welcome) = client::open(self.endpoint, self.config, self.dialer)?;
        if !welcome.transports.contains(self.offer) {
            return Err(Fault::Protocol("another node answers at this address".to_owned()));
        }
        self.limit(&mut connection)?;
        Ok(connection)
    }

    fn limit(&self, connection: &mut Connection) -> io::Result<()> {
        connection.set_timeout(self.config.transfer_timeout.min(self.config.silence_timeout))
    }

    /// Gives a connection ends of its own, at NICs of both sides: the address of the node's ends, and these as a peer.
    fn join(
        &self,
        connection: &mut Connection,
        initiator: &Initiator,
    ) -> Result<(Bytes, Arc<Peer>), Fault> {
        let refuse = |error: ConnectError| Fault::Protocol(error.to_string());
        let node = Address::from_bytes(&self.offer.address);
        let node = node.map_err(|error| Fault::Protocol(error.to_string()))?;
        let via = connection.local_addr().map(|address| address.ip());
        let end = initiator.prepare(&node, via).map_err(refuse)?;
        let own = end.address().to_bytes().into();
        let ask = |out: &mut Vec<u8>, id| encode_join(out, id, &own);
        let answer = decode_join_reply(&connection.call(ask, Kind::JoinReply)?)?;
        let answer = answer.map_err(|code| Fault::Protocol(format!("it joins no end: {code}")))?;
        let address = Address::from_bytes(&answer);
        let address = address.map_err(|error| Fault::Protocol(error.to_string()))?;
        let peer = end.join(&address).map_err(refuse)?;
        Ok((answer, Arc::new(peer)))
    }
}

/// A segment, or since when it is not lent.
#[derive(Clone)]
enum KnownSegment {
    Lent(Arc<FarSegment>),
    NotLent(Instant),
}

/// A segment of another host.
pub(super) struct FarSegment {
    pub(super) memory: RemoteMemory,
    pub(super) table: RemoteMemory,
    pub(super) slots: RemoteSlots,
}

impl FarSegment {
    fn new(shared: &Shared) -> Option<Self> {
        let RemoteSegment { memory, slots } = shared.remote.as_ref()?;
        let memory = RemoteMemory::from_bytes(memory).ok()?;
        let table = RemoteMemory::from_bytes(slots).ok()?;
        let slots = RemoteSlots::new(shared.len).ok()?;
        let fits = memory.len() >= shared.len && table.len() >= slots.table_bytes();
        fits.then_some(Self { memory, table, slots })
    }
}

impl FarPeer {
    /// Opens an endpoint for a node that made this offer when it was greeted by this connection.
    pub(super) fn meet(
        endpoint: &Arc<str>,
        mut connection: Connection,
        offer: &TransportDescriptor,
        domain: &Arc<Domain>,
        config: &Arc<TcpConfig>,
    ) -> Result<Self, String> {
        let initiator = Initiator::open(domain).map_err(|error| error.to_string())?;
        let way = ToNode { endpoint, offer, config, dialer: &config.dialer() };
        way.limit(&mut connection).map_err(|error| error.to_string())?;
        let idle = IdleConnections::new(MAX_IDLE);
        let (joined, readers) = match domain.device().joins_in_pairs() {
            true => {
                let joined = way.join(&mut connection, &initiator);
                let of_fault = |fault| TransferError::of_fault(&fault, endpoint).to_string();
                (Some(connection), joined.map_err(of_fault)?.1)
            }
            false => {
                let address = Address::from_bytes(&offer.address);
                let address = address.map_err(|error| error.to_string())?;
                let readers = initiator.connect(&address).map_err(|error| error.to_string())?;
                idle.give_back(connection);
                (None, Arc::new(readers))
            }
        };
        Ok(Self {
            endpoint: Arc::clone(endpoint),
            offer: offer.clone(),
            dialer: config.dialer(),
            config: Arc::clone(config),
            readers,
            writers: Mutex::default(),
            joins_in_pairs: joined.is_some(),
            initiator,
            _joined: joined.map(Mutex::new),
            idle,
            asking: Mutex::default(),
            segments: RwLock::default(),
            is_lost: AtomicBool::new(false),
            met: Instant::now(),
        })
    }

    pub(super) fn endpoint(&self) -> &Arc<str> {
        &self.endpoint
    }

    /// Whether the node is to be greeted anew: a request failed, so it may have restarted and have other keys; or NICs work
    /// by which it is not reached.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
            || (self.joins_in_pairs
                && self.met.elapsed() > DOUBT_OF_WAYS
                && self.readers.can_be_better())
    }

    pub(super) fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
        self.idle.close();
    }

    /// Until when to wait for this many bytes.
    pub(super) fn deadline(&self, bytes: u64) -> Instant {
        let patience = PATIENCE.min(self.config.silence_timeout).min(self.config.transfer_timeout);
        Instant::now() + patience + Duration::from_millis(time_to_move_ms(bytes))
    }

    /// A segment; `None` if it can only be reached by message.
    pub(super) fn segment(&self, id: SegmentId) -> Option<Arc<FarSegment>> {
        if let Some(known) = self.known(id) {
            return known;
        }
        let _asking = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.known(id) {
            return known;
        }
        let segment = self.ask_for(id).unwrap_or_else(|fault| {
            tracing::debug!(segment = %id, ?fault, "a segment of another host is not lent");
            None
        });
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        if segments.len() < MAX_SEGMENTS || segments.contains_key(&id) {
            let known = match &segment {
                Some(segment) => KnownSegment::Lent(Arc::clone(segment)),
                None => KnownSegment::NotLent(Instant::now()),
            };
            segments.insert(id, known);
        }
        segment
    }

    fn known(&self, id: SegmentId) -> Option<Option<Arc<FarSegment>>> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        match segments.get(&id)? {
            KnownSegment::Lent(segment) => Some(Some(Arc::clone(segment))),
            KnownSegment::NotLent(since) => (since.elapsed() < DOUBT).then_some(None),
        }
    }

    fn ask_for(&self, id: SegmentId) -> Result<Option<Arc<FarSegment>>, Fault> {
        let mut connection = self.connection()?;
        let encode = |out: &mut Vec<u8>, request| encode_share(out, request, id);
        let shared = decode_share_reply(&connection.call(encode, Kind::ShareReply)?)?;
        self.give_back(connection);
        Ok(shared.ok().as_ref().and_then(FarSegment::new).map(Arc::new))
    }

    /// An idle connection, or a new one to the same node.
    pub(super) fn connection(&self) -> Result<Connection, Fault> {
        if let Some(connection) = self.idle.take(false) {
            return Ok(connection);
        }
        let Self { endpoint, offer, config, dialer, .. } = self;
        let way = ToNode { endpoint, offer, config, dialer };
        let opened = match self.joins_in_pairs {
            true => way.open().and_then(|mut connection| {
                self.remember(way.join(&mut connection, &self.initiator)?);
                Ok(connection)
            }),
            false => way.open(),
        };
        // Another node may answer there by now, and an endpoint that was closed joins nothing.
        opened.inspect_err(|fault| {
            if matches!(fault, Fault::Protocol(_)) {
                self.lose();
            }
        })
    }

    /// Takes back a connection that is between two questions.
    pub(super) fn give_back(&self, connection: Connection) {
        self.idle.give_back(connection);
    }

    /// Memory of this length, as the node described it.
    pub(super) fn described(
        &self,
        memory: &Bytes,
        len: u64,
    ) -> Result<RemoteMemory, TransferError> {
        let memory = RemoteMemory::from_bytes(memory).map_err(|error| error.to_string());
        let fits = memory.and_then(|memory| match memory.len() == len {
            true => Ok(memory),
            false => Err(format!("memory of {} bytes for a range of {len}", memory.len())),
        });
        fits.map_err(|reason| TransferError::Protocol { endpoint: self.endpoint.clone(), reason })
    }

    /// The node's endpoint for what one connection begins.
    pub(super) fn writer(&self, address: &Bytes) -> Result<Arc<Peer>, String> {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = writers.iter().position(|(known, _)| known == address) {
            let known = Arc::clone(&writers[at].1);
            // Those that were not used for long are forgotten first.
            writers[at..].rotate_left(1);
            return Ok(known);
        }
        drop(writers);
        let read = Address::from_bytes(address).map_err(|error| error.to_string())?;
        let peer = self.initiator.connect(&read).map_err(|error| error.to_string())?;
        let peer = Arc::new(peer);
        self.remember((address.clone(), Arc::clone(&peer)));
        Ok(peer)
    }

    fn remember(&self, writer: (Bytes, Arc<Peer>)) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        if writers.len() == MAX_WRITERS {
            writers.remove(0);
        }
        writers.push(writer);
    }

    /// Forgets the node's endpoint for a connection that is over.
    pub(super) fn forget_writer(&self, address: &Bytes) {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.retain(|(known, _)| known != address);
    }
}

/// Whether the node answered for each range.
pub(super) fn check_count(found: usize, expected: usize) -> Result<(), Fault> {
    if found == expected {
        return Ok(());
    }
    Err(Fault::Protocol(format!("{found} results came for {expected} ranges")))
}
