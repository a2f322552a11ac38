use std::sync::Arc;

use mooncake_fabric::Domain;
use mooncake_memory::{DeviceRegion, RawSlice, Region};
use mooncake_types::{Epoch, RangeDrop, SegmentId};

use crate::carrier::{Batch, Carrier, Fate, begin, carry, open};
use crate::far::{CallersMemory, Far, FarMessages};
use crate::near::{Distance, Near};
use crate::parts::Parts;
use crate::staged::{staged_reads, staged_writes};
use crate::view::{OwnViews, View};
use crate::{
    HotCache, LocalTransport, NodeDrop, ReadOp, Source, TcpConfig, TcpTransport, TransferError,
    Transport, Transports, ViewOp, Way, WriteOp,
};

/// Every way to nodes that this process has: a copy for its own segments, shared memory for those of its host, TCP for
/// all others.
pub struct Paths {
    local: Option<LocalTransport>,
    near: Arc<Near>,
    /// Asks nodes to drop entries, and where they run.
    tcp: Arc<TcpTransport>,
    pub(crate) ways: Transports,
    /// The preferred first.
    pub(crate) carriers: Vec<Arc<dyn Carrier>>,
    /// How many of them reach only this host. The hot cache comes behind these.
    near_carriers: usize,
    own_views: OwnViews,
    hot: Option<Arc<HotCache>>,
    /// Memory of callers that stays mapped.
    known: Arc<CallersMemory>,
    /// Whether long reads are cut into parts.
    cuts: bool,
    /// Whether all bytes are checked that are read.
    verifies: bool,
}

impl Paths {
    /// The ways that `ways` allows, and a copy for the segments of `local`. TCP is used in any case to ask a node once
    /// where it runs.
    #[must_use]
    pub fn new(local: Option<LocalTransport>, config: TcpConfig, ways: Transports) -> Self {
        let verifies = config.verify_reads;
        let local = local.map(|local| local.verifying(verifies));
        let tcp = Arc::new(TcpTransport::new(config.clone()));
        let near = Arc::new(Near::new(config, ways.clone(), Arc::clone(&tcp)));
        let mut carriers: Vec<Arc<dyn Carrier>> = Vec::new();
        carriers.extend(local.iter().map(|local| Arc::new(local.clone()) as Arc<dyn Carrier>));
        if !ways.near().is_empty() {
            carriers.push(Arc::clone(&near) as Arc<dyn Carrier>);
        }
        let near_carriers = carriers.len();
        if ways.allows(Way::Tcp) {
            carriers.push(Arc::clone(&tcp) as Arc<dyn Carrier>);
        }
        let own_views = OwnViews::default();
        let known = Arc::default();
        Self {
            local,
            near,
            tcp,
            ways,
            carriers,
            near_carriers,
            own_views,
            hot: None,
            known,
            // The parts of a range have no checksums of their own.
            cuts: !verifies,
            verifies,
        }
    }

    /// Reaches nodes of other hosts one-sided by this device, where the allowed ways say so.
    #[must_use]
    pub fn with_fabric(mut self, device: Option<Arc<Domain>>) -> Self {
        self.add_far(device, false);
        self
    }

    /// As [`Paths::with_fabric`], for nodes whose memory has no tables of slots. Ranges are read whole.
    #[must_use]
    pub fn with_fabric_that_asks(mut self, device: Option<Arc<Domain>>) -> Self {
        self.add_far(device, true);
        self.cuts = false;
        self
    }

    fn add_far(&mut self, device: Option<Arc<Domain>>, asks: bool) {
        let Some(device) = device.filter(|_| self.ways.prefers(Way::Fabric)) else { return };
        let before = self.ways.in_order().iter().take_while(|&&way| way != Way::Fabric);
        let own = usize::from(self.local.is_some());
        let is_behind_near = before.copied().any(Way::is_near) || self.ways.near().is_empty();
        let at = if is_behind_near { self.near_carriers } else { own };
        let near = (is_behind_near && !self.ways.near().is_empty()).then(|| Arc::clone(&self.near));
        let memory = (Arc::clone(&self.known), near);
        let far = Arc::new(Far::new(device, Arc::clone(&self.tcp), memory, asks));
        self.carriers.insert(at, Arc::clone(&far) as Arc<dyn Carrier>);
        if !is_behind_near {
            self.near_carriers += 1;
        }
        if !self.ways.allows(Way::Tcp) {
            self.carriers.push(Arc::new(FarMessages(far)));
        }
    }

    /// Uses this cache for ranges of other hosts: reads them from it, and keeps there what is read often.
    #[must_use]
    pub fn with_hot_cache(self, hot: Option<Arc<HotCache>>) -> Self {
        let leads_elsewhere = self.ways.allows(Way::Tcp) || self.ways.allows(Way::Fabric);
        // Its copies have no checksums.
        Self { hot: hot.filter(|_| leads_elsewhere && !self.verifies), ..self }
    }

    /// Lets transfers use this memory of the caller in place, which stays mapped until it is forgotten. It has an effect
    /// where it can be read and written, and where a transport wants it.
    pub fn know(&self, memory: RawSlice<'static>) {
        if self.ways.prefers(Way::Fabric) {
            self.known.add(memory);
        }
    }

    /// As [`Paths::know`], for a region that this process can read and write.
    pub fn know_region(&self, region: Arc<Region>) {
        if self.ways.prefers(Way::Fabric) {
            self.known.add_region(region);
        }
    }

    /// As [`Paths::know`], for memory of a device: transfers to nodes of other hosts use it in place where their network
    /// cards can, and others copy it. It must stay allocated until it is forgotten.
    pub fn know_device(&self, region: DeviceRegion) {
        if self.ways.prefers(Way::Fabric) {
            self.known.add_device(Arc::new(region));
        }
    }

    /// Forgets the known memory that begins here. It may be unmapped once no transfer with it is under way.
    pub fn forget(&self, start: usize) {
        self.known.remove(start);
    }

    /// How far a peer is. Asks the peer if that is not known.
    #[must_use]
    pub fn distance(&self, endpoint: &Arc<str>) -> Distance {
        self.near.distance(endpoint)
    }

    /// Shows ranges in place, without a copy: those of this process's segments, and those that nodes on this host
    /// pin. `None` for all others, which can be read instead, and for all if bytes are checked.
    #[must_use]
    pub fn show(&self, ops: &[ViewOp]) -> Vec<Option<View>> {
        if self.verifies {
            return ops.iter().map(|_| None).collect();
        }
        let show_own = |op: &ViewOp| {
            let local = self.local_for(op.range.segment)?;
            Some(self.own_views.show(local.host(), &op.range))
        };
        let own: Vec<Option<Option<View>>> = ops.iter().map(show_own).collect();
        let is_away = |position: usize| own[position].is_none();
        let near = self.near.show(ops, is_away);
        let both = own.into_iter().zip(near);
        both.map(|(own, near)| own.unwrap_or(near)).collect()
    }

    /// The source of the views that [`Paths::show`] gives of this segment.
    #[must_use]
    pub fn source_shown(&self, segment: SegmentId) -> Source {
        if self.local_for(segment).is_some() { Source::Own } else { Source::Host }
    }

    /// How often peers are remembered, by all ways together.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.near.remembered() + self.tcp.peers().count()
    }

    /// Closes idle connections as if so much time had passed.
    #[cfg(test)]
    pub(crate) fn tidy_after(&self, time: std::time::Duration) {
        self.tcp.peers().tidy_after(time);
    }

    fn local_for(&self, segment: SegmentId) -> Option<&LocalTransport> {
        self.local.as_ref().filter(|local| local.owns(segment))
    }

    /// Has nodes drop entries, those of this process at once and all others by TCP. `Ok` means that no reader finds
    /// that version there.
    #[must_use]
    pub fn drop_ranges(&self, ops: &[NodeDrop]) -> Vec<Result<(), TransferError>> {
        let is_here = |op: &&NodeDrop| self.local_for(op.range.segment).is_some();
        let here: Vec<RangeDrop> = ops.iter().filter(is_here).map(|op| op.range).collect();
        let are_here: Vec<bool> = ops.iter().map(|op| is_here(&op)).collect();
        let dropped = self.local.as_ref().map_or_else(Vec::new, |local| local.drop_all(&here));
        let mut results = self.tcp.drop_where(ops, |position| !are_here[position]);
        let own = results.iter_mut().zip(are_here).filter(|(_, is_here)| *is_here);
        own.zip(dropped).for_each(|((result, _), dropped)| *result = dropped);
        results
    }

    /// Like [`Transport::read`], but returns where each range came from.
    #[must_use]
    pub fn read_from(&self, ops: &[ReadOp]) -> Vec<Result<Source, TransferError>> {
        match Parts::cut(ops).filter(|_| self.cuts) {
            Some(parts) => {
                let is_kept = |part: usize| self.is_kept(&ops[parts.position(part)]);
                parts.join(self.read_each(parts.ops(), is_kept))
            }
            None => self.read_each(ops, |position| self.is_kept(&ops[position])),
        }
    }

    /// Like [`Transport::write`], but returns where each range went.
    #[must_use]
    pub fn write_to(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
    ) -> Vec<Result<Source, TransferError>> {
        let mut fates = vec![Fate::Open; ops.len()];
        carry(&self.carriers, Batch::Writes(epoch, ops), &mut fates);
        let of_devices = open(&fates).filter(|&at| !ops[at].src.is_host()).collect();
        for (at, result) in staged_writes(ops, of_devices, &|ops| self.write_to(epoch, ops)) {
            fates[at] = Fate::Over(result);
        }
        self.close(Batch::Writes(epoch, ops), fates)
    }

    /// Reads into staging memory, for operations with memory of devices.
    fn read_staged(&self, ops: &[ReadOp]) -> Vec<Result<Source, TransferError>> {
        self.read_each(ops, |position| self.is_kept(&ops[position]))
    }

    /// Whether the hot cache would keep a range.
    fn is_kept(&self, op: &ReadOp) -> bool {
        self.hot.as_ref().is_some_and(|hot| hot.takes(&op.range))
    }

    fn read_each(
        &self,
        ops: &[ReadOp],
        is_kept: impl Fn(usize) -> bool,
    ) -> Vec<Result<Source, TransferError>> {
        let mut fates = vec![Fate::Open; ops.len()];
        let (near, far) = self.carriers.split_at(self.near_carriers);
        let first = if self.hot.is_some() { near } else { &self.carriers };
        carry(first, Batch::Reads(ops), &mut fates);
        if self.hot.is_some() {
            // What the cache would keep is staged, and comes by it.
            let others = begin(&mut fates, |at| ops[at].dst.is_host() || is_kept(at));
            carry(far, Batch::Reads(ops), &mut fates);
            others.into_iter().for_each(|at| fates[at] = Fate::Open);
        }
        let of_devices = open(&fates).filter(|&at| !ops[at].dst.is_host()).collect();
        for (at, result) in staged_reads(ops, of_devices, &|ops| self.read_staged(ops)) {
            fates[at] = Fate::Over(result);
        }
        if let Some(hot) = &self.hot {
            hot.read_away(ops, is_kept, far, &mut fates);
        }
        self.close(Batch::Reads(ops), fates)
    }

    /// The results. An operation that is open still cannot be made by any allowed way.
    fn close(&self, batch: Batch<'_>, fates: Vec<Fate>) -> Vec<Result<Source, TransferError>> {
        let close = |(position, fate)| match fate {
            Fate::Over(result) => result,
            Fate::Open | Fate::Begun => {
                Err(self.no_way(batch.endpoint(position), batch.segment(position)))
            }
        };
        fates.into_iter().enumerate().map(close).collect()
    }

    /// Why no carrier reaches a segment.
    fn no_way(&self, endpoint: &Arc<str>, segment: SegmentId) -> TransferError {
        let others = self.carriers.iter().skip(usize::from(self.local.is_some()));
        let mut reasons: Vec<String> =
            others.filter_map(|carrier| carrier.examine(endpoint, segment).err()).collect();
        reasons.dedup();
        if reasons.is_empty() {
            reasons.push(self.distance(endpoint).to_string());
        }
        let reasons = reasons.join("; ");
        let reason = format!("{reasons}, and only these transports are allowed: {}", self.ways);
        TransferError::Unreachable { endpoint: Arc::clone(endpoint), reason }
    }
}

impl Transport for Paths {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        self.read_from(ops).into_iter().map(|result| result.map(|_| ())).collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        self.write_to(epoch, ops).into_iter().map(|result| result.map(|_| ())).collect()
    }
}
