use std::collections::BTreeMap;
use std::sync::Arc;

use mooncake_calls::Stage;
use mooncake_fabric::{
    Batch as Requests, Direction, Domain, Part, Peer, RegisterError, RemoteMemory,
};
use mooncake_memory::HeldMemory;
use mooncake_types::SegmentId;

use super::callers_memory::CallersMemory;
use super::peer::FarPeer;
use super::peers::FarReach;
use super::read::FarReads;
use super::staging::StagingPool;
use super::write::{FarWrites, MIN_ONE_SIDED_BYTES};
use crate::carrier::{Batch, Carrier, Examined, Fate, Pending, begin, open};
use crate::fallbacks::Fallbacks;
use crate::near::{Distance, Near};
use crate::peer_ways::PeerWays;
use crate::{TcpConfig, TcpTransport, Way};

/// Reaches the nodes that offer the same transport as this process's device.
pub(crate) struct Far {
    pub(super) domain: Arc<Domain>,
    /// The name of the transport.
    pub(super) kind: String,
    pub(super) config: Arc<TcpConfig>,
    /// Whether nodes are asked for each range, since their memory has no tables of slots.
    pub(super) asks: bool,
    /// Greets peers.
    pub(super) tcp: Arc<TcpTransport>,
    pub(super) peers: PeerWays<FarReach>,
    pub(super) staging: StagingPool,
    pub(super) known: Arc<CallersMemory>,
    /// Tells which nodes are on this host, if memory of GPUs is staged for these.
    near: Option<Arc<Near>>,
    pub(super) fallbacks: Fallbacks,
}

/// The operations of a call at one node, by their positions.
pub(super) struct FarVisit {
    pub(super) peer: Arc<FarPeer>,
    pub(super) positions: Vec<usize>,
    pub(super) in_place: InPlace,
}

/// Memory of callers that is used in place, for each operation that has all of its memory there, by position. What the
/// device wants to know of it is registered.
pub(super) type InPlace = BTreeMap<usize, Vec<HeldMemory>>;

impl Far {
    pub(crate) fn new(
        domain: Arc<Domain>,
        tcp: Arc<TcpTransport>,
        (known, near): (Arc<CallersMemory>, Option<Arc<Near>>),
        asks: bool,
    ) -> Self {
        Self {
            kind: domain.device().transport(),
            domain,
            asks,
            config: Arc::new(tcp.config().clone()),
            tcp,
            peers: PeerWays::default(),
            staging: StagingPool::default(),
            known,
            near,
            fallbacks: Fallbacks::default(),
        }
    }

    pub(super) fn way(&self) -> Way {
        Way::Fabric
    }

    /// Groups the open operations that `may` be one-sided by the nodes that are reached. Those with memory of devices are
    /// among them if it is used in place.
    fn visits(
        &self,
        batch: Batch<'_>,
        fates: &[Fate],
        may: impl Fn(usize) -> bool,
    ) -> Vec<FarVisit> {
        // The processor checks bytes, so they have to pass it.
        let are_checked = matches!(batch, Batch::Reads(_)) && self.config.verify_reads;
        let wanted = open(fates).filter_map(|at| {
            let (len, memory) = (batch.len_bytes(at), batch.memory(at));
            if memory.total_len() != len || !may(at) {
                return None;
            }
            let held = self.known.hold(memory);
            let is_direct = || !are_checked && held.is_some() && !self.is_near(batch.endpoint(at));
            (memory.is_host() || is_direct()).then_some((at, held))
        });
        let wanted: Vec<(usize, Option<Vec<HeldMemory>>)> = wanted.collect();
        let endpoints = wanted.iter().map(|&(at, _)| batch.endpoint(at));
        self.peers.find_all(endpoints, |endpoint| drop(self.find(endpoint)));
        let mut visits: Vec<FarVisit> = Vec::new();
        let mut last: Option<(&Arc<str>, Option<usize>)> = None;
        for (at, held) in wanted {
            let endpoint = batch.endpoint(at);
            let known = last.filter(|(last, _)| Arc::ptr_eq(last, endpoint));
            let (_, visit) = known.unwrap_or_else(|| {
                let FarReach::Reached(peer) = self.find(endpoint) else { return (endpoint, None) };
                (endpoint, Some(visit_to(&mut visits, peer)))
            });
            last = Some((endpoint, visit));
            let Some(visit) = visit else { continue };
            match held.filter(|held| self.registers(held)) {
                Some(held) => drop(visits[visit].in_place.insert(at, held)),
                None if batch.memory(at).is_host() => {}
                None => continue,
            }
            visits[visit].positions.push(at);
        }
        visits.retain(|visit| !visit.positions.is_empty());
        visits
    }

    fn is_near(&self, endpoint: &Arc<str>) -> bool {
        let near = self.near.as_ref();
        near.is_some_and(|near| matches!(near.distance(endpoint), Distance::Near(_)))
    }

    /// Whether the device takes memory. What it does not take is not known any more.
    fn registers(&self, memory: &[HeldMemory]) -> bool {
        memory.iter().all(|piece| match self.domain.register(piece) {
            Ok(()) => true,
            Err(error) => {
                // Of a GPU there may be many buffers, all refused for one reason.
                self.fallbacks.warn_of_copies(&match &error {
                    RegisterError::Device { refusal, .. } => refusal.to_string(),
                    other => other.to_string(),
                });
                self.known.remove(piece.region_start());
                false
            }
        })
    }

    /// Submits what is used in place: each with the peer's memory and the offset there. Returns how many bytes there are,
    /// too.
    pub(super) fn submit_in_place<'r>(
        &self,
        (peer, direction): (&Peer, Direction),
        in_place: impl Iterator<Item = (&'r Vec<HeldMemory>, &'r RemoteMemory, u64)>,
    ) -> Result<Option<(Requests, u64)>, mooncake_fabric::TransferError> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        for (memory, remote, mut offset) in in_place {
            for local in memory {
                parts.push(Part { local: local.clone(), remote, offset });
                offset = offset.saturating_add(local.len() as u64);
                bytes += local.len() as u64;
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        peer.submit(direction, &parts).map(|requests| Some((requests, bytes)))
    }
}

/// The number of the visit to this node, which is added if there is none.
fn visit_to(visits: &mut Vec<FarVisit>, peer: Arc<FarPeer>) -> usize {
    let known = visits.iter().rposition(|visit| Arc::ptr_eq(&visit.peer, &peer));
    known.unwrap_or_else(|| {
        visits.push(FarVisit { peer, positions: Vec::new(), in_place: InPlace::new() });
        visits.len() - 1
    })
}

/// Opens the operations again that are not over, for other carriers. Returns whether there are any.
pub(super) fn reopen(fates: &mut [Fate], visits: &[FarVisit]) -> bool {
    let mut any = false;
    for &position in visits.iter().flat_map(|visit| &visit.positions) {
        if !fates[position].is_over() {
            fates[position] = Fate::Open;
            any = true;
        }
    }
    any
}

impl Carrier for Far {
    fn stage(&self) -> Stage {
        Stage::Fabric
    }

    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>> {
        let least = match batch {
            Batch::Reads(_) if !self.asks => 1,
            // What is shorter takes longer than the message that carries its bytes.
            Batch::Reads(_) | Batch::Writes(..) => MIN_ONE_SIDED_BYTES,
        };
        let visits = self.visits(batch, fates, |at| batch.len_bytes(at) >= least);
        if visits.is_empty() {
            return None;
        }
        for &position in visits.iter().flat_map(|visit| &visit.positions) {
            fates[position] = Fate::Begun;
        }
        Some(match batch {
            Batch::Reads(ops) => Box::new(FarReads { far: self, ops, visits }),
            Batch::Writes(epoch, ops) => Box::new(FarWrites { far: self, epoch, ops, visits }),
        })
    }

    fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Result<Examined, String> {
        match self.find(endpoint) {
            FarReach::Reached(_) if self.asks => {
                let how = format!("{} reads its memory", self.domain.device());
                Ok(Examined { way: Some(self.way()), how })
            }
            FarReach::Reached(peer) => {
                let how = match peer.segment(segment) {
                    Some(_) => format!("{} reads its memory", self.domain.device()),
                    None => "it does not lend this segment, so messages carry its bytes".to_owned(),
                };
                Ok(Examined { way: Some(self.way()), how })
            }
            FarReach::NotReached { why, .. } => Err(why),
        }
    }
}

/// Messages to nodes that [`Far`] reaches, for what cannot be done one-sided.
pub(crate) struct FarMessages(pub(crate) Arc<Far>);

impl Carrier for FarMessages {
    fn stage(&self) -> Stage {
        Stage::Tcp
    }

    fn submit<'a>(&'a self, batch: Batch<'a>, fates: &mut [Fate]) -> Option<Box<dyn Pending + 'a>> {
        let is_reached = |at| matches!(self.0.find(batch.endpoint(at)), FarReach::Reached(_));
        let elsewhere = begin(fates, |at| !is_reached(at));
        let pending = self.0.tcp.submit(batch, fates);
        elsewhere.into_iter().for_each(|at| fates[at] = Fate::Open);
        pending
    }

    fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Result<Examined, String> {
        self.0.examine(endpoint, segment)
    }
}
