use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, SliceList, with_helpers, with_waiting_helpers};
use mooncake_types::{Epoch, RangeDrop, RangeRead, SegmentId, Version};

use crate::begin_reads::disk_order;
use crate::hot::CacheLookup;
use crate::near::{Distance, Near, Reach};
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
    near: Near,
    tcp: TcpTransport,
    ways: Transports,
    own_views: OwnViews,
    hot: Option<Arc<HotCache>>,
}

impl Paths {
    /// The ways that `ways` allows, and a copy for the segments of `local`. TCP is used in any case to ask a node once
    /// where it runs.
    #[must_use]
    pub fn new(local: Option<LocalTransport>, config: TcpConfig, ways: Transports) -> Self {
        let near = Near::new(config.clone(), ways.clone());
        let own_views = OwnViews::default();
        Self { local, near, tcp: TcpTransport::new(config), ways, own_views, hot: None }
    }

    /// Uses this cache for ranges of other hosts: reads them from it, and keeps there what is read often.
    #[must_use]
    pub fn with_hot_cache(self, hot: Option<Arc<HotCache>>) -> Self {
        Self { hot: hot.filter(|_| self.ways.allows(Way::Tcp)), ..self }
    }

    /// How far a peer is. Asks the peer if that is not known.
    #[must_use]
    pub fn distance(&self, endpoint: &Arc<str>) -> Distance {
        self.near.distance(endpoint, &self.tcp)
    }

    /// Which way this process reads a segment of a node, why, and how long an empty question takes.
    #[must_use]
    pub fn examine(&self, endpoint: &Arc<str>, segment: SegmentId) -> Examination {
        let distance = self.distance(endpoint);
        let (way, mut why) = (self.ways.allows(Way::Tcp).then_some(Way::Tcp), distance.to_string());
        let (way, round_trip) = match &distance {
            Distance::Unreachable(_) => (None, None),
            Distance::Near(met) if !self.ways.near().is_empty() => {
                let reach = self.near.reach(met, segment);
                why = format!("{why}; {reach}");
                let way = match reach {
                    Reach::Kernel { .. } => Way::ProcessVm,
                    Reach::Mapped | Reach::LocalSocket { .. } => Way::Shm,
                };
                (Some(way), round_trip(|| self.near.ask(met, empty_read(endpoint, segment))))
            }
            _ => {
                let ask = || self.tcp.read(&[empty_read(endpoint, segment)]).remove(0);
                (way, round_trip(ask))
            }
        };
        if self.ways != Transports::default() {
            why = format!("{why}; allowed are only {}", self.ways);
        }
        Examination { way, why, round_trip }
    }

    /// Shows ranges in place, without a copy: those of this process's segments, and those that nodes on this host
    /// pin. `None` for all others, which can be read instead.
    #[must_use]
    pub fn show(&self, ops: &[ViewOp]) -> Vec<Option<View>> {
        let show_own = |op: &ViewOp| {
            let local = self.local_for(op.range.segment)?;
            Some(self.own_views.show(local.host(), &op.range))
        };
        let own: Vec<Option<Option<View>>> = ops.iter().map(show_own).collect();
        let is_away = |position: usize| own[position].is_none();
        let near = self.near.show(ops, is_away, &self.tcp);
        let both = own.into_iter().zip(near);
        both.map(|(own, near)| own.unwrap_or(near)).collect()
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

    /// Runs the unsettled operations over TCP, if that is allowed, and returns all results.
    fn finish<'a>(
        &self,
        settled: Vec<Option<Result<(), TransferError>>>,
        endpoint: impl Fn(usize) -> &'a Arc<str>,
        by_tcp: impl FnOnce(&dyn Fn(usize) -> bool) -> Vec<Result<(), TransferError>>,
    ) -> Vec<Result<(), TransferError>> {
        if self.ways.allows(Way::Tcp) {
            if settled.iter().all(Option::is_some) {
                return settled.into_iter().flatten().collect();
            }
            let results = by_tcp(&|position| settled[position].is_none());
            let all = settled.into_iter().zip(results);
            return all.map(|(settled, result)| settled.unwrap_or(result)).collect();
        }
        let no_way = |position: usize| {
            let endpoint = endpoint(position);
            let distance = self.distance(endpoint);
            let reason =
                format!("{distance}, and only these transports are allowed: {}", self.ways);
            Err(TransferError::Unreachable { endpoint: Arc::clone(endpoint), reason })
        };
        let all = settled.into_iter().enumerate();
        all.map(|(position, settled)| settled.unwrap_or_else(|| no_way(position))).collect()
    }
}

/// How one segment is reached from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examination {
    /// The way that reads take; frames over a node's local socket count as shared memory. `None`: there is none.
    pub way: Option<Way>,
    /// Why this way, in words.
    pub why: String,
    /// The shortest of a few empty questions to the node; `None` if it gave no answer.
    pub round_trip: Option<Duration>,
}

/// Questions of which the fastest answer counts.
const QUESTIONS: usize = 5;

fn round_trip(ask: impl Fn() -> Result<(), TransferError>) -> Option<Duration> {
    let time = |_| {
        let start = Instant::now();
        let answered =
            matches!(ask(), Ok(()) | Err(TransferError::Stale | TransferError::Refused(_)));
        answered.then(|| start.elapsed())
    };
    (0..QUESTIONS).filter_map(time).min()
}

/// A read of a version that does not exist: the node looks it up, and sends no payload.
fn empty_read(endpoint: &Arc<str>, segment: SegmentId) -> ReadOp<'static> {
    let version = Version::default();
    let range = RangeRead { segment, offset: 0, version, object_offset: 0, from: 0, len: 0 };
    ReadOp { endpoint: Arc::clone(endpoint), range, dst: SliceList::default() }
}

impl Transport for Paths {
    fn read(&self, ops: &[ReadOp]) -> Vec<Result<(), TransferError>> {
        self.read_from(ops).into_iter().map(|result| result.map(|_| ())).collect()
    }

    fn write(&self, epoch: Epoch, ops: &[WriteOp<'_>]) -> Vec<Result<(), TransferError>> {
        let local =
            |op: &WriteOp<'_>| self.local_for(op.range.segment).filter(|_| op.src.is_host());
        let bytes = ops.iter().filter(|op| local(op).is_some()).map(|op| op.range.len);
        let bytes = bytes.fold(0, u64::saturating_add);
        let mut settled = with_helpers(ops, bytes, |op| Some(local(op)?.write_one(epoch, op)));
        self.write_own_from_devices(epoch, ops, &mut settled);
        self.near.write(epoch, ops, &mut settled, &self.tcp);
        let staged = self.open_of_devices(&settled, |position| &ops[position].src);
        for (position, result) in staged_writes(ops, staged, &|ops| self.write(epoch, ops)) {
            settled[position] = Some(result);
        }
        self.finish(
            settled,
            |position| &ops[position].endpoint,
            |away| self.tcp.write_where(epoch, ops, away),
        )
    }
}

impl Paths {
    /// Like [`Transport::read`], but returns where each range came from.
    #[must_use]
    pub fn read_from(&self, ops: &[ReadOp]) -> Vec<Result<Source, TransferError>> {
        match Parts::cut(ops) {
            Some(parts) => {
                let is_kept = |part: usize| self.is_kept(&ops[parts.position(part)]);
                parts.join(self.read_each(parts.ops(), is_kept))
            }
            None => self.read_each(ops, |position| self.is_kept(&ops[position])),
        }
    }

    /// Reads into staging memory, for operations with memory of devices.
    fn read_staged(&self, ops: &[ReadOp]) -> Vec<Result<Source, TransferError>> {
        self.read_each(ops, |position| self.is_kept(&ops[position]))
    }

    /// Whether the hot cache would keep a range.
    fn is_kept(&self, op: &ReadOp) -> bool {
        self.hot.as_ref().is_some_and(|hot| hot.takes(&op.range))
    }

    /// The source of the views that [`Paths::show`] gives of this segment.
    #[must_use]
    pub fn source_shown(&self, segment: SegmentId) -> Source {
        if self.local_for(segment).is_some() { Source::Own } else { Source::Host }
    }

    /// Positions of the unsettled operations with memory of devices.
    fn open_of_devices<'a>(
        &self,
        settled: &[Option<Result<(), TransferError>>],
        memory: impl Fn(usize) -> &'a SliceList<'a>,
    ) -> Vec<usize> {
        let open = (0..settled.len()).filter(|&position| settled[position].is_none());
        open.filter(|&position| !memory(position).is_host()).collect()
    }

    /// Writes from devices to segments of this process.
    fn write_own_from_devices(
        &self,
        epoch: Epoch,
        ops: &[WriteOp<'_>],
        settled: &mut [Option<Result<(), TransferError>>],
    ) {
        let Some(local) = &self.local else { return };
        let of_devices = self.open_of_devices(settled, |position| &ops[position].src);
        let is_own = |position: &usize| local.owns(ops[*position].range.segment);
        let own: Vec<usize> = of_devices.into_iter().filter(is_own).collect();
        let some: Vec<&WriteOp<'_>> = own.iter().map(|&position| &ops[position]).collect();
        for (position, result) in own.into_iter().zip(local.write_from_devices(epoch, &some)) {
            settled[position] = Some(result);
        }
    }

    /// Reads from segments of this process to devices. Ranges on disks are settled before.
    fn read_own_to_devices(
        &self,
        ops: &[ReadOp],
        settled: &mut [Option<Result<(), TransferError>>],
    ) {
        let Some(local) = &self.local else { return };
        let of_devices = self.open_of_devices(settled, |position| &ops[position].dst);
        let is_own = |position: &usize| local.owns(ops[*position].range.segment);
        let own: Vec<usize> = of_devices.into_iter().filter(is_own).collect();
        let some: Vec<&ReadOp> = own.iter().map(|&position| &ops[position]).collect();
        for (position, result) in own.into_iter().zip(local.read_to_devices(&some)) {
            settled[position] = Some(result);
        }
    }

    fn read_each(
        &self,
        ops: &[ReadOp],
        is_kept: impl Fn(usize) -> bool,
    ) -> Vec<Result<Source, TransferError>> {
        let local = |op: &ReadOp| self.local_for(op.range.segment);
        let bytes = ops.iter().filter(|op| local(op).is_some()).map(|op| op.range.len);
        let bytes = bytes.fold(0, u64::saturating_add);
        let on_disk = self.local.as_ref().map_or_else(Vec::new, |local| {
            disk_order(local.host(), ops.iter().map(|op| &op.range).enumerate())
        });
        let mut settled = with_helpers(ops, bytes, |op| {
            let local = local(op)?;
            let is_on_disk = !on_disk.is_empty() && local.host().reads_from_disk(op.range.segment);
            (!is_on_disk && op.dst.is_host()).then(|| local.read_one(op))
        });
        let read = with_waiting_helpers(&on_disk, |&at| Some(local(&ops[at])?.read_one(&ops[at])));
        on_disk.into_iter().zip(read).for_each(|(at, result)| settled[at] = result);
        self.read_own_to_devices(ops, &mut settled);
        let is_own = |it: &Option<_>| if it.is_some() { Source::Own } else { Source::Tcp };
        let mut sources: Vec<Source> = settled.iter().map(is_own).collect();
        self.near.read(ops, &mut settled, &self.tcp);
        for (source, settled) in sources.iter_mut().zip(&settled) {
            if *source == Source::Tcp && settled.is_some() {
                *source = Source::Host;
            }
        }
        let staged = self.open_of_devices(&settled, |position| &ops[position].dst);
        for (position, result) in staged_reads(ops, staged, &|ops| self.read_staged(ops)) {
            if let Ok(source) = result {
                sources[position] = source;
            }
            settled[position] = Some(result.map(|_| ()));
        }
        let results = self.finish(
            settled,
            |position| &ops[position].endpoint,
            |away| self.read_away(ops, away, &is_kept, &mut sources),
        );
        let from = results.into_iter().zip(sources);
        from.map(|(result, source)| result.map(|()| source)).collect()
    }

    /// Reads by TCP what lies on other hosts and not in the hot cache. For a cached range without a promise, it asks
    /// the node whether it still holds the version.
    fn read_away(
        &self,
        ops: &[ReadOp],
        is_away: &dyn Fn(usize) -> bool,
        is_kept: &impl Fn(usize) -> bool,
        sources: &mut [Source],
    ) -> Vec<Result<(), TransferError>> {
        let Some(hot) = &self.hot else { return self.tcp.read_where(ops, is_away) };
        let is_wanted = |position: usize| is_away(position) && is_kept(position);
        let read = |at| if is_wanted(at) { hot.read(&ops[at]) } else { CacheLookup::Miss };
        let copied: Vec<CacheLookup> = (0..ops.len()).map(read).collect();
        let is_promised =
            |position: usize| matches!(copied[position], CacheLookup::Promised { .. });
        let is_asked = |position| is_away(position) && !is_promised(position);
        let mut results = match copied.contains(&CacheLookup::Unpromised) {
            true => self.ask_or_read(ops, &copied, is_asked),
            false => self.tcp.read_where(ops, is_asked),
        };
        for (position, result) in results.iter_mut().enumerate() {
            if is_promised(position) {
                *result = Ok(());
            }
            if is_wanted(position) && result.is_ok() {
                hot.on_read(&ops[position], copied[position]);
            }
            if copied[position] != CacheLookup::Miss {
                sources[position] = Source::Host;
            }
        }
        results
    }

    /// Reads the ranges that were not copied from the cache. For copied ranges without a promise, asks whether the
    /// node still holds them.
    fn ask_or_read(
        &self,
        ops: &[ReadOp],
        copied: &[CacheLookup],
        is_asked: impl Fn(usize) -> bool,
    ) -> Vec<Result<(), TransferError>> {
        // Each answer comes with a byte that has no use.
        let bytes = Buffer::zeroed(ops.len());
        let asked = ops.iter().enumerate().map(|(position, op)| match copied[position] {
            CacheLookup::Unpromised => ReadOp {
                endpoint: Arc::clone(&op.endpoint),
                range: op.range.question(),
                dst: bytes.raw().sub(position, 1).into(),
            },
            CacheLookup::Miss | CacheLookup::Promised { .. } => op.clone(),
        });
        self.tcp.read_where(&asked.collect::<Vec<ReadOp<'_>>>(), is_asked)
    }
}
