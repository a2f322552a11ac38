//! Nodes on this host: their segments are mapped here, and read without a message.
//!
//! [`Near`] finds out which nodes are; a [`neighbour::Neighbour`] is one of them for as long as its process lives. What
//! cannot be read or written in the mapped memory goes as frames over the node's local socket.

mod in_place;
mod line;
mod neighbour;
mod reach;
mod segment;
mod standing;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use mooncake_types::{Epoch, ErrorCode};

use crate::{
    ReadOp, TcpConfig, TcpTransport, TransferError, Transport, Transports, Way, WriteOp,
    local_socket,
};
use in_place::Placed;
use neighbour::Neighbour;
pub use reach::Reach;
use segment::{Look, NearSegment};
pub use standing::Distance;
use standing::{Met, Peer};

/// Peers that are remembered; beyond this, all others count as far.
const MAX_PEERS: usize = 4096;

/// Result of each operation; `None` for those that are for another transport.
type Settled = Vec<Option<Result<(), TransferError>>>;

/// The way to nodes of this host.
pub(crate) struct Near {
    /// The boot of the kernel and the network namespace; `None` if the system does not say.
    here: Option<(String, u64)>,
    config: Arc<TcpConfig>,
    ways: Transports,
    /// Frames over local sockets.
    sockets: TcpTransport,
    peers: RwLock<HashMap<Arc<str>, Arc<Peer>>>,
}

impl Near {
    pub(crate) fn new(config: TcpConfig, ways: Transports) -> Self {
        Self {
            here: local_socket::host().ok(),
            sockets: TcpTransport::new(config.clone()),
            config: Arc::new(config),
            ways,
            peers: RwLock::default(),
        }
    }

    /// How far a peer is. It is asked by TCP if that is not known.
    pub(crate) fn distance(&self, endpoint: &Arc<str>, tcp: &TcpTransport) -> Distance {
        let Some(peer) = self.peer(endpoint) else { return Distance::TooManyPeers };
        peer.distance(|| standing::measure(endpoint, tcp, self.here.as_ref(), &self.config))
    }

    fn neighbour(&self, endpoint: &Arc<str>, tcp: &TcpTransport) -> Option<Arc<Neighbour>> {
        match self.distance(endpoint, tcp) {
            Distance::Near(neighbour) => Some(neighbour.0),
            _ => None,
        }
    }

    fn peer(&self, endpoint: &Arc<str>) -> Option<Arc<Peer>> {
        let known = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(endpoint) {
            return Some(Arc::clone(peer));
        }
        drop(known);
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= MAX_PEERS && !peers.contains_key(endpoint) {
            return None;
        }
        Some(Arc::clone(peers.entry(Arc::clone(endpoint)).or_default()))
    }

    /// Reads what lies at nodes of this host, of those operations that are not settled.
    pub(crate) fn read(&self, ops: &[ReadOp], settled: &mut Settled, tcp: &TcpTransport) {
        if self.ways.near().is_empty() {
            return;
        }
        let mut by_message: Vec<(usize, ReadOp)> = Vec::new();
        let mut last: Option<(&Arc<str>, Option<Arc<Neighbour>>)> = None;
        for (position, op) in ops.iter().enumerate() {
            if settled[position].is_some() {
                continue;
            }
            if op.dst.total_len() != op.range.len {
                settled[position] = Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
                continue;
            }
            let known = last.take().filter(|(endpoint, _)| Arc::ptr_eq(endpoint, &op.endpoint));
            let known = known.unwrap_or_else(|| (&op.endpoint, self.neighbour(&op.endpoint, tcp)));
            if let Some(neighbour) = &known.1 {
                match self.look(neighbour, op) {
                    Look::Over(result) => settled[position] = Some(result),
                    Look::Unknown => {
                        let endpoint = Arc::clone(&neighbour.endpoint);
                        by_message.push((position, ReadOp { endpoint, ..op.clone() }));
                    }
                }
            }
            last = Some(known);
        }
        if by_message.is_empty() {
            return;
        }
        let (positions, asked): (Vec<usize>, Vec<ReadOp>) = by_message.into_iter().unzip();
        for (position, result) in positions.into_iter().zip(self.sockets.read(&asked)) {
            // A socket that broke says nothing of the node; the next way will tell.
            if !is_broken(&result) {
                settled[position] = Some(result);
            }
        }
    }

    /// Reads a range without a message, by the first way that reaches it.
    fn look(&self, neighbour: &Neighbour, op: &ReadOp) -> Look {
        let Some(segment) = neighbour.segment(op.range.segment) else { return Look::Unknown };
        let mut looked = Look::Unknown;
        for way in self.ways.near() {
            looked = match way {
                Way::Shm => segment.read(op),
                _ => neighbour.read_by_kernel(&segment, op),
            };
            if !matches!(looked, Look::Unknown) {
                break;
            }
        }
        if segment.is_closed() {
            neighbour.forget(op.range.segment);
        }
        // Of a node that has died nobody takes what was removed out of the table.
        if neighbour.is_alive() { looked } else { Look::Unknown }
    }

    /// Writes to nodes of this host, of those operations that are not settled.
    pub(crate) fn write(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
        settled: &mut Settled,
        tcp: &TcpTransport,
    ) {
        if self.ways.near().is_empty() {
            return;
        }
        let mut by_message = Vec::new();
        let mut in_place: BTreeMap<&Arc<str>, InPlace<'_>> = BTreeMap::new();
        for (position, op) in ops.iter().enumerate() {
            if settled[position].is_some() {
                continue;
            }
            if op.src.total_len() != op.range.len {
                settled[position] = Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
                continue;
            }
            let Some(neighbour) = self.neighbour(&op.endpoint, tcp) else { continue };
            match self.mapped(&neighbour, op) {
                Some(segment) => {
                    let writes =
                        in_place.entry(&op.endpoint).or_insert_with(|| InPlace::at(neighbour));
                    writes.positions.push(position);
                    writes.placed.push(Placed { op, segment });
                }
                None => {
                    let endpoint = Arc::clone(&neighbour.endpoint);
                    by_message.push((position, WriteOp { endpoint, ..op.clone() }));
                }
            }
        }
        for InPlace { neighbour, positions, placed } in in_place.into_values() {
            let results = in_place::write(&neighbour, epoch, &placed);
            for (position, result) in positions.into_iter().zip(results) {
                settled[position] = Some(result);
            }
        }
        self.write_by_message(epoch, by_message, settled);
    }

    /// The segment that a write goes to, if it is mapped here and the write is worth two questions.
    fn mapped(&self, neighbour: &Neighbour, op: &WriteOp<'_>) -> Option<Arc<NearSegment>> {
        let may = self.ways.near().contains(&Way::Shm) && op.range.len >= in_place::MIN_BYTES;
        let segment = may.then(|| neighbour.segment(op.range.segment)).flatten()?;
        segment.region().is_some().then_some(segment)
    }

    fn write_by_message(
        &self,
        epoch: Epoch,
        ops: Vec<(usize, WriteOp<'_>)>,
        settled: &mut Settled,
    ) {
        if ops.is_empty() {
            return;
        }
        let (positions, ops): (Vec<usize>, Vec<WriteOp<'_>>) = ops.into_iter().unzip();
        for (position, result) in positions.into_iter().zip(self.sockets.write(epoch, &ops)) {
            // Where nobody listened nothing has begun.
            if !matches!(result, Err(TransferError::Deserted { .. })) {
                settled[position] = Some(result);
            }
        }
    }
}

/// The writes of one call that go into the memory of one node.
struct InPlace<'a> {
    neighbour: Arc<Neighbour>,
    positions: Vec<usize>,
    placed: Vec<Placed<'a>>,
}

impl InPlace<'_> {
    fn at(neighbour: Arc<Neighbour>) -> Self {
        Self { neighbour, positions: Vec::new(), placed: Vec::new() }
    }
}

impl Near {
    /// A read over a node's local socket.
    pub(crate) fn ask(&self, met: &Met, op: ReadOp) -> Result<(), TransferError> {
        let endpoint = Arc::clone(&met.0.endpoint);
        self.sockets.read(&[ReadOp { endpoint, ..op }]).remove(0)
    }
}

fn is_broken(result: &Result<(), TransferError>) -> bool {
    use TransferError::{Deserted, Protocol, Unreachable};
    matches!(result, Err(Unreachable { .. } | Deserted { .. } | Protocol { .. }))
}
