//! Nodes on this host: their segments are mapped here, and read without a message.
//!
//! [`Near`] finds out which nodes are; a [`neighbour::Neighbour`] is one of them for as long as its process lives. What
//! cannot be read or written in the mapped memory goes as frames over the node's local socket.

mod doubts;
mod in_place;
mod neighbour;
mod peer_discovery;
mod pins;
mod prefault;
mod reach;
mod segment;
mod show;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_memory::with_helpers;
use mooncake_types::{Epoch, ErrorCode};

use crate::at_once::at_once;
use crate::{
    ReadOp, TcpConfig, TcpTransport, TransferError, Transport, Transports, Way, WriteOp,
    local_socket,
};
use in_place::Placed;
use neighbour::Neighbour;
pub use peer_discovery::Distance;
use peer_discovery::{Met, Peer};
pub use reach::Reach;
use segment::{Look, NearSegment};

/// Peers that are remembered; beyond this, all others count as far until some of these are out of date.
const MAX_PEERS: usize = 4096;

/// How often those that are out of date are looked for, where there are too many.
const SWEEP: Duration = Duration::from_secs(1);

/// What is known of each peer.
type Known = RwLock<HashMap<Arc<str>, Arc<Peer>>>;

/// Result of each operation; `None` for those that are for another transport.
type Settled = Vec<Option<Result<(), TransferError>>>;

/// The way to nodes of this host.
pub(crate) struct Near {
    /// The boot of the kernel and the network namespace; `None` if the system does not say.
    here: Option<(String, u64)>,
    config: Arc<TcpConfig>,
    ways: Transports,
    /// Frames over local sockets.
    sockets: Arc<TcpTransport>,
    peers: Arc<Known>,
    /// When too many peers were looked through last.
    swept: Mutex<Option<Instant>>,
}

impl Near {
    pub(crate) fn new(config: TcpConfig, ways: Transports) -> Self {
        Self {
            here: local_socket::host().ok(),
            sockets: Arc::new(TcpTransport::new(config.clone())),
            config: Arc::new(config),
            ways,
            peers: Arc::default(),
            swept: Mutex::default(),
        }
    }

    /// How far a peer is. It is asked by TCP if that is not known.
    pub(crate) fn distance(&self, endpoint: &Arc<str>, tcp: &TcpTransport) -> Distance {
        let Some(peer) = self.peer(endpoint) else { return Distance::TooManyPeers };
        peer.distance(|| {
            let gone = self.farewell(endpoint);
            let means = (&self.config, gone);
            peer_discovery::measure(endpoint, tcp, self.here.as_ref(), means)
        })
    }

    /// What is to be done when a neighbour has gone: nothing of it is to stay open.
    fn farewell(&self, endpoint: &Arc<str>) -> impl FnOnce(&str) + Send + 'static {
        let (peers, sockets) = (Arc::downgrade(&self.peers), Arc::clone(&self.sockets));
        let endpoint = Arc::clone(endpoint);
        move |local_socket| {
            sockets.forget(local_socket);
            let Some(peers) = peers.upgrade() else { return };
            let mut peers = peers.write().unwrap_or_else(PoisonError::into_inner);
            // Another node may have its place already.
            let is_gone = peers.get(&endpoint).is_some_and(|peer| !peer.is_current());
            let gone = is_gone.then(|| peers.remove(&endpoint));
            drop(peers);
            drop(gone);
        }
    }

    /// Finds out how far peers are of which that is not known, all at the same time: several that are dead are waited for
    /// together.
    fn measure_all<'a>(&self, endpoints: impl Iterator<Item = &'a Arc<str>>, tcp: &TcpTransport) {
        let mut unknown: Vec<&Arc<str>> = Vec::new();
        for endpoint in endpoints {
            let is_known = unknown.last().is_some_and(|last| Arc::ptr_eq(last, endpoint))
                || self.peer(endpoint).is_none_or(|peer| peer.is_current());
            if !is_known && !unknown.contains(&endpoint) {
                unknown.push(endpoint);
            }
        }
        if unknown.len() > 1 {
            at_once(&unknown, |endpoint| drop(self.distance(endpoint, tcp)));
        }
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
            if !self.may_sweep() {
                return None;
            }
            peers.retain(|_, peer| peer.is_current());
            if peers.len() >= MAX_PEERS {
                return None;
            }
        }
        Some(Arc::clone(peers.entry(Arc::clone(endpoint)).or_default()))
    }

    fn may_sweep(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|swept| swept.elapsed() < SWEEP) {
            return false;
        }
        *swept = Some(Instant::now());
        true
    }

    /// Reads what lies at nodes of this host, of those operations that are not settled.
    pub(crate) fn read(&self, ops: &[ReadOp], settled: &mut Settled, tcp: &TcpTransport) {
        if self.ways.near().is_empty() {
            return;
        }
        if ops.len() > 1 {
            let open = ops.iter().zip(&*settled).filter(|(_, settled)| settled.is_none());
            self.measure_all(open.map(|(op, _)| &op.endpoint), tcp);
        }
        let mut visits: Vec<Visit> = Vec::new();
        // Positions, each with the visit that it is a part of.
        let mut wanted: Vec<(usize, usize)> = Vec::new();
        let mut last: Option<(&Arc<str>, Option<usize>)> = None;
        for (position, op) in ops.iter().enumerate() {
            if settled[position].is_some() {
                continue;
            }
            if op.dst.total_len() != op.range.len {
                settled[position] = Some(Err(TransferError::Refused(ErrorCode::InvalidParams)));
                continue;
            }
            let known = last.filter(|(endpoint, _)| Arc::ptr_eq(endpoint, &op.endpoint));
            let known = known.unwrap_or_else(|| {
                let neighbour = self.neighbour(&op.endpoint, tcp);
                (&op.endpoint, neighbour.map(|neighbour| Visit::among(&mut visits, neighbour)))
            });
            last = Some(known);
            wanted.extend(known.1.map(|visit| (position, visit)));
        }
        let (wanted, of_devices): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|&(position, _)| ops[position].dst.is_host());
        self.read_to_devices(ops, &of_devices, &mut visits, settled);
        let bytes = wanted.iter().map(|&(position, _)| ops[position].range.len);
        let bytes = bytes.fold(0, u64::saturating_add);
        let looks = with_helpers(&wanted, bytes, |&(position, visit)| {
            self.look(&visits[visit].neighbour, &ops[position])
        });
        for ((position, visit), look) in wanted.into_iter().zip(looks) {
            match look {
                Look::Over(result) => {
                    settled[position] = Some(result);
                    visits[visit].found.push(position);
                }
                Look::Unknown => visits[visit].unknown.push(position),
            }
        }
        self.read_by_message(ops, visits, settled);
    }

    /// Has devices read memory that is mapped here. What is not goes another way, as what of nodes that died meanwhile.
    fn read_to_devices(
        &self,
        ops: &[ReadOp],
        wanted: &[(usize, usize)],
        visits: &mut [Visit],
        settled: &mut Settled,
    ) {
        if wanted.is_empty() || !self.ways.near().contains(&Way::Shm) {
            return;
        }
        let segments = wanted
            .iter()
            .map(|&(position, visit)| visits[visit].neighbour.segment(ops[position].range.segment));
        let segments: Vec<Option<Arc<NearSegment>>> = segments.collect();
        let some = wanted.iter().zip(&segments).filter_map(|(&(position, visit), segment)| {
            Some((position, visit, segment.as_deref()?))
        });
        let some: Vec<(usize, usize, &NearSegment)> = some.collect();
        let reads: Vec<_> =
            some.iter().map(|&(position, _, segment)| (segment, &ops[position])).collect();
        for ((position, visit, _), look) in some.into_iter().zip(segment::read_to_devices(&reads)) {
            if let Look::Over(result) = look {
                settled[position] = Some(result);
                visits[visit].found.push(position);
            }
        }
    }

    /// Asks nodes for what could not be read without a message, and for what was, of nodes that have died meanwhile.
    fn read_by_message(&self, ops: &[ReadOp], visits: Vec<Visit>, settled: &mut Settled) {
        let mut by_message: Vec<(usize, ReadOp)> = Vec::new();
        for Visit { neighbour, found, mut unknown } in visits {
            // Of a node that has died nobody takes what was removed out of the table.
            if !found.is_empty() && !neighbour.is_alive_now() {
                found.iter().for_each(|&position| settled[position] = None);
                unknown.extend(found.into_iter().filter(|&position| ops[position].dst.is_host()));
            }
            by_message.extend(unknown.into_iter().map(|position| {
                let endpoint = Arc::clone(&neighbour.endpoint);
                (position, ReadOp { endpoint, ..ops[position].clone() })
            }));
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

    /// Reads a range without a message, by the first way that reaches it. It counts if the node is alive afterwards.
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
        looked
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
        if ops.len() > 1 {
            let open = ops.iter().zip(&*settled).filter(|(_, settled)| settled.is_none());
            self.measure_all(open.map(|(op, _)| &op.endpoint), tcp);
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
                // It passes through memory of the host, and comes here again.
                None if !op.src.is_host() => {}
                None => {
                    let endpoint = Arc::clone(&neighbour.endpoint);
                    by_message.push((position, WriteOp { endpoint, ..op.clone() }));
                }
            }
        }
        for InPlace { neighbour, positions, placed } in in_place.into_values() {
            let results = in_place::write(&neighbour, epoch, &placed);
            for (position, result) in positions.into_iter().zip(results) {
                settled[position] = result;
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
        let results = self.sockets.write_if_reached(epoch, &ops);
        for (position, result) in positions.into_iter().zip(results) {
            settled[position] = result;
        }
    }
}

/// What one call reads at one node without a message, as positions of its operations.
struct Visit {
    neighbour: Arc<Neighbour>,
    /// Those that are over.
    found: Vec<usize>,
    /// Those that the node has to be asked for.
    unknown: Vec<usize>,
}

impl Visit {
    /// Which of the visits is the one to this node; a new one if there is none.
    fn among(visits: &mut Vec<Visit>, neighbour: Arc<Neighbour>) -> usize {
        let known = visits.iter().rposition(|visit| Arc::ptr_eq(&visit.neighbour, &neighbour));
        known.unwrap_or_else(|| {
            visits.push(Visit { neighbour, found: Vec::new(), unknown: Vec::new() });
            visits.len() - 1
        })
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

#[cfg(test)]
impl Near {
    /// Peers that are remembered here, and for frames.
    pub(crate) fn remembered(&self) -> usize {
        self.peers.read().unwrap_or_else(PoisonError::into_inner).len()
            + self.sockets.peers().count()
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
    use TransferError::{Deserted, Protocol, Refused, Unreachable};
    // A node that has too many connections already says that it is unavailable.
    let full = ErrorCode::UnavailableInCurrentStatus;
    let broken = matches!(result, Err(Unreachable { .. } | Deserted { .. } | Protocol { .. }));
    broken || *result == Err(Refused(full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_peers_that_are_out_of_date_do_not_keep_others_out() {
        let near = Near::new(TcpConfig::default(), Transports::default());
        for number in 0..=MAX_PEERS {
            let endpoint: Arc<str> = format!("node-{number}:1").into();
            assert!(near.peer(&endpoint).is_some(), "{endpoint}");
        }
        assert_eq!(near.peers.read().unwrap().len(), 1);
    }
}
