use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooncake_memory::{Region, SlotRow, SlotTable};
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use super::partial::Partial;
use crate::{Interrupt, Pin, ReadTicket, SegmentHost, SharedSegment, WriteTicket};

/// Called when a read has got its ticket, before a byte is copied.
type ReadHook = Box<dyn Fn(&MemoryHost, &ReadTicket) + Send + Sync>;

/// A node's memory and ledger, without the node. Slow on purpose where that is simpler.
#[derive(Default)]
pub struct MemoryHost {
    state: Arc<Mutex<MemoryHostState>>,
    left: Arc<Condvar>,
    reads: AtomicUsize,
    is_disk: AtomicBool,
    hook: Mutex<Option<Arc<ReadHook>>>,
    busy: Mutex<HashSet<u64>>,
    drop_delay: Mutex<Duration>,
}

#[derive(Default)]
struct MemoryHostState {
    seen: Epoch,
    next_ticket: u64,
    /// Memory is not shared with other processes.
    is_unshared: bool,
    segments: HashMap<SegmentId, Segment>,
}

struct Segment {
    region: Arc<Region>,
    slots: Arc<SlotTable>,
    entries: Vec<Entry>,
    partials: Vec<Partial>,
    /// The newest grant that began in each range.
    begun: Vec<(Range<u64>, Version)>,
    writers: Vec<Writer>,
    pins: Vec<Pinned>,
}

struct Entry {
    range: Range<u64>,
    version: Version,
    grant: Version,
    /// Unknown for one that was written in parts.
    checksums: Option<Arc<[u32]>>,
}

struct Writer {
    id: u64,
    entry: Range<u64>,
    part: Range<u64>,
    version: Version,
    grant: Version,
    interrupt: Arc<dyn Interrupt>,
}

struct Pinned {
    id: u64,
    range: Range<u64>,
    interrupt: Arc<dyn Interrupt>,
}

/// Tells the host that a range may change again.
struct Keeper {
    state: Arc<Mutex<MemoryHostState>>,
    left: Arc<Condvar>,
    segment: SegmentId,
    id: u64,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = state.segments.get_mut(&self.segment) {
            segment.pins.retain(|pin| pin.id != self.id);
        }
        self.left.notify_all();
    }
}

/// The checksums of a range within an entry, if they are known and it is whole chunks.
fn checksums_of(entry: &Entry, range: &RangeRead) -> Option<Arc<[u32]>> {
    let is_end = range.from + range.len == entry.range.end - entry.range.start;
    let ends_with_chunk = is_end || range.len.is_multiple_of(CHUNK_BYTES);
    let is_whole = range.from.is_multiple_of(CHUNK_BYTES) && ends_with_chunk;
    let known = entry.checksums.as_ref().filter(|_| is_whole)?;
    let wanted = known.iter().skip((range.from / CHUNK_BYTES) as usize);
    Some(wanted.take(range.len.div_ceil(CHUNK_BYTES) as usize).copied().collect())
}

fn overlap(left: &Range<u64>, right: &Range<u64>) -> bool {
    left.start < right.end && right.start < left.end
}

impl MemoryHost {
    /// A host of one segment of `len` bytes.
    ///
    /// # Panics
    /// If the system has no memory for it.
    #[must_use]
    pub fn with_segment(segment: SegmentId, len: u64) -> Arc<MemoryHost> {
        let host = MemoryHost::default();
        let region = Arc::new(Region::anonymous(len).expect("memory for a test"));
        host.lock().segments.insert(segment, Segment::new(region));
        Arc::new(host)
    }

    /// Runs `hook` between the ticket and the copy of every read from now on. Takes complete entries out of the
    /// tables that other processes read, so that these ask too.
    pub fn on_read(&self, hook: impl Fn(&MemoryHost, &ReadTicket) + Send + Sync + 'static) {
        for segment in self.lock().segments.values() {
            for entry in &segment.entries {
                segment.slots.withdraw(entry.range.start);
            }
        }
        let hook: ReadHook = Box::new(hook);
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Lends a segment no longer.
    pub fn take_back(&self, segment: SegmentId) {
        if let Some(gone) = self.lock().segments.remove(&segment) {
            gone.slots.close();
        }
    }

    /// Says from now on that its readers wait for a disk.
    pub fn become_disk(&self) {
        self.is_disk.store(true, Ordering::SeqCst);
    }

    /// Refuses the next read of each entry at these offsets with [`ErrorCode::ObjectReplicaBusy`].
    pub fn be_busy_once(&self, offsets: impl IntoIterator<Item = u64>) {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner).extend(offsets);
    }

    /// Takes so long for each entry that is dropped from now on.
    pub fn delay_drops(&self, delay: Duration) {
        *self.drop_delay.lock().unwrap_or_else(PoisonError::into_inner) = delay;
    }

    /// Gives no memory to other processes from now on.
    pub fn stop_sharing(&self) {
        self.lock().is_unshared = true;
    }

    /// Drops every entry of a segment, as a removal would.
    pub fn drop_entries(&self, segment: SegmentId) {
        if let Some(segment) = self.lock().segments.get_mut(&segment) {
            segment.keep_entries(|_| false);
        }
    }

    /// Forgets all entries and all grants of a segment.
    pub fn forget(&self, segment: SegmentId) {
        if let Some(segment) = self.lock().segments.get_mut(&segment) {
            segment.keep_entries(|_| false);
            segment.partials.clear();
            segment.begun.clear();
        }
    }

    /// The segment's memory.
    #[must_use]
    pub fn region(&self, segment: SegmentId) -> Option<Arc<Region>> {
        Some(Arc::clone(&self.lock().segments.get(&segment)?.region))
    }

    /// How often it was asked where a range lies.
    #[must_use]
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    /// Writers that have begun and neither completed nor abandoned.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.lock().segments.values().map(|segment| segment.writers.len()).sum()
    }

    /// How many ranges are pinned.
    #[must_use]
    pub fn pins(&self) -> usize {
        self.lock().segments.values().map(|segment| segment.pins.len()).sum()
    }

    /// The versions that are complete in a segment, by offset.
    #[must_use]
    pub fn entries(&self, segment: SegmentId) -> Vec<(u64, Version)> {
        let state = self.lock();
        let entries = state.segments.get(&segment).into_iter().flat_map(|s| &s.entries);
        let mut entries: Vec<_> = entries.map(|e| (e.range.start, e.version)).collect();
        entries.sort_unstable();
        entries
    }

    fn lock(&self) -> MutexGuard<'_, MemoryHostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_writer(state: &mut MemoryHostState, ticket: &WriteTicket) -> Option<Writer> {
        let writers = &mut state.segments.get_mut(&ticket.segment)?.writers;
        let index = writers.iter().position(|writer| writer.id == ticket.id)?;
        Some(writers.swap_remove(index))
    }
}

impl Writer {
    fn new(id: u64, range: &RangeWrite<'_>, interrupt: Arc<dyn Interrupt>) -> Self {
        let entry = range.offset..range.offset + range.entry_len;
        let start = range.offset + range.from;
        let (version, grant) = (range.version, range.grant);
        Self { id, entry, part: start..start + range.len, version, grant, interrupt }
    }

    fn is_whole(&self) -> bool {
        self.entry == self.part
    }

    fn is_of(&self, partial: &Partial) -> bool {
        (&self.entry, self.version, self.grant) == (&partial.entry, partial.version, partial.grant)
    }
}

impl Segment {
    fn new(region: Arc<Region>) -> Self {
        let slots = Arc::new(SlotTable::new(region.len()).expect("memory for a test"));
        let (entries, partials) = (Vec::new(), Vec::new());
        Self {
            region,
            slots,
            entries,
            partials,
            begun: Vec::new(),
            writers: Vec::new(),
            pins: Vec::new(),
        }
    }

    fn keep_entries(&mut self, keep: impl Fn(&Entry) -> bool) {
        let slots = &self.slots;
        self.entries.retain(|entry| {
            let keeps = keep(entry);
            if !keeps {
                slots.withdraw(entry.range.start);
            }
            keeps
        });
    }

    fn check(&self, range: &RangeWrite<'_>) -> Result<(), ErrorCode> {
        let whole = self.region.slice(range.offset, range.entry_len);
        whole.map_err(|_| ErrorCode::InvalidParams)?;
        let end = range.from.checked_add(range.len).filter(|&end| end <= range.entry_len);
        end.map(|_| ()).ok_or(ErrorCode::InvalidWrite)
    }

    fn is_superseded(&self, writer: &Writer) -> bool {
        let newer = |begun: &Version| *begun > writer.grant;
        self.begun.iter().any(|(other, begun)| overlap(other, &writer.entry) && newer(begun))
    }

    /// Drops the entries that the writer replaces.
    fn make_way(&mut self, writer: &Writer) -> Result<(), ErrorCode> {
        if self.is_superseded(writer) {
            return Err(ErrorCode::InvalidVersion);
        }
        if !writer.is_whole() {
            self.check_part(writer)?;
        }
        let stays = |other: &Range<u64>| !overlap(other, &writer.entry);
        self.begun.retain(|(other, _)| *other != writer.entry);
        self.begun.push((writer.entry.clone(), writer.grant));
        self.keep_entries(|entry| stays(&entry.range));
        self.partials.retain(|partial| {
            stays(&partial.entry) || (!writer.is_whole() && writer.is_of(partial))
        });
        Ok(())
    }

    fn check_part(&self, writer: &Writer) -> Result<(), ErrorCode> {
        let same_grant = |(other, begun): &&(Range<u64>, Version)| {
            overlap(other, &writer.entry) && *begun == writer.grant
        };
        if self.begun.iter().filter(same_grant).any(|(other, _)| *other != writer.entry) {
            return Err(ErrorCode::InvalidVersion);
        }
        let complete = |entry: &Entry| entry.range == writer.entry && entry.grant == writer.grant;
        if self.entries.iter().any(complete) {
            return Err(ErrorCode::InvalidWrite);
        }
        let busy =
            |other: &Writer| overlap(&other.part, &writer.part) && other.grant == writer.grant;
        if self.writers.iter().any(busy) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        Ok(())
    }

    /// Interrupts all pins and writers in the range, but the writers of other parts. Tells whether there are any.
    fn interrupt(&self, writer: &Writer) -> bool {
        let in_the_way = |other: &&Writer| {
            overlap(&other.entry, &writer.entry)
                && (writer.is_whole() || other.grant != writer.grant)
        };
        let writers = self.writers.iter().filter(in_the_way).map(|other| &other.interrupt);
        let pinned = |pin: &&Pinned| overlap(&pin.range, &writer.part);
        let pins = self.pins.iter().filter(pinned).map(|pin| &pin.interrupt);
        writers.chain(pins).inspect(|other| other.interrupt()).count() > 0
    }

    fn begin(&mut self, writer: Writer) {
        if !writer.is_whole() {
            if !self.partials.iter().any(|partial| writer.is_of(partial)) {
                let entry = writer.entry.clone();
                self.partials.push(Partial::new(entry, writer.version, writer.grant));
            }
            let partial = self.partials.iter_mut().find(|partial| writer.is_of(partial));
            partial.expect("it is there now").open(&writer.part);
        }
        self.writers.push(writer);
    }

    fn complete(&mut self, writer: Writer, checksums: Vec<u32>) {
        let checksums = if writer.is_whole() {
            Some(checksums.into()).filter(|sums: &Arc<[u32]>| {
                sums.len() as u64 == (writer.entry.end - writer.entry.start).div_ceil(CHUNK_BYTES)
            })
        } else {
            let index = self.partials.iter().position(|partial| writer.is_of(partial));
            let index = index.expect("a writer that was not superseded has its entry");
            if !self.partials[index].close(writer.part) {
                return;
            }
            self.partials.swap_remove(index);
            None
        };
        let (range, version, grant) = (writer.entry, writer.version, writer.grant);
        self.slots.publish(&SlotRow {
            offset: range.start,
            len: range.end - range.start,
            version,
            object_offset: 0,
            digest: checksums.as_deref().map(mooncake_memory::digest),
        });
        self.entries.push(Entry { range, version, grant, checksums });
    }
}

impl SegmentHost for MemoryHost {
    fn reads_from_disk(&self, _segment: SegmentId) -> bool {
        self.is_disk.load(Ordering::SeqCst)
    }

    fn owns(&self, segment: SegmentId) -> bool {
        self.lock().segments.contains_key(&segment)
    }

    fn epoch(&self) -> Epoch {
        self.lock().seen
    }

    fn begin_write(
        &self,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode> {
        let mut state = self.lock();
        if epoch < state.seen {
            return Err(ErrorCode::InvalidVersion);
        }
        state.seen = epoch;
        state.next_ticket += 1;
        let id = state.next_ticket;
        let missing = ErrorCode::SegmentNotFound;
        state.segments.get(&range.segment).ok_or(missing)?.check(range)?;
        let writer = Writer::new(id, range, interrupt);
        loop {
            let segment = state.segments.get_mut(&range.segment).ok_or(missing)?;
            segment.make_way(&writer)?;
            if !segment.interrupt(&writer) {
                break;
            }
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let segment = state.segments.get_mut(&range.segment).ok_or(missing)?;
        let memory = segment.region.hold(writer.part.start, range.len);
        let memory = memory.map_err(|_| ErrorCode::InvalidParams)?;
        segment.begin(writer);
        Ok(WriteTicket { memory, id, segment: range.segment })
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        if !checksums.is_empty() {
            let found = ticket.memory.raw().chunk_crcs();
            debug_assert_eq!(checksums, found, "checksums are those of the memory");
        }
        let mut state = self.lock();
        let writer = Self::take_writer(&mut state, &ticket).ok_or(ErrorCode::InternalError)?;
        self.left.notify_all();
        let segment = state.segments.get_mut(&ticket.segment).ok_or(ErrorCode::SegmentNotFound)?;
        if segment.is_superseded(&writer) {
            return Err(ErrorCode::InvalidVersion);
        }
        segment.complete(writer, checksums);
        Ok(())
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        Self::take_writer(&mut self.lock(), &ticket);
        self.left.notify_all();
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&range.offset) {
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        let ticket = {
            let state = self.lock();
            let segment = state.segments.get(&range.segment).ok_or(ErrorCode::SegmentNotFound)?;
            let entry = segment
                .entries
                .iter()
                .find(|entry| entry.range.start == range.offset && entry.version == range.version)
                .ok_or(ErrorCode::ObjectNotFound)?;
            let entry_len = entry.range.end - entry.range.start;
            if range.from.checked_add(range.len).is_none_or(|end| end > entry_len) {
                return Err(ErrorCode::InvalidParams);
            }
            let memory = segment
                .region
                .hold(range.offset + range.from, range.len)
                .map_err(|_| ErrorCode::InvalidParams)?;
            let checksums = checksums_of(entry, range);
            let RangeRead { segment, offset, version, from, .. } = *range;
            let grant = entry.grant;
            ReadTicket { memory, checksums, segment, offset, from, version, grant }
        };
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook(self, &ticket);
        }
        Ok(ticket)
    }

    fn drop_range(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        let delay = *self.drop_delay.lock().unwrap_or_else(PoisonError::into_inner);
        std::thread::sleep(delay);
        let mut state = self.lock();
        let segment = state.segments.get_mut(&range.segment).ok_or(ErrorCode::SegmentNotFound)?;
        let wanted = (range.offset, range.version);
        segment.keep_entries(|entry| (entry.range.start, entry.version) != wanted);
        Ok(())
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let state = self.lock();
        state.segments.get(&ticket.segment).is_some_and(|segment| {
            let wanted = (ticket.offset, ticket.version, ticket.grant);
            let mut entries = segment.entries.iter();
            entries.any(|entry| (entry.range.start, entry.version, entry.grant) == wanted)
        })
    }

    fn pin(&self, range: &RangeRead, interrupt: Arc<dyn Interrupt>) -> Result<Pin, ErrorCode> {
        let mut state = self.lock();
        state.next_ticket += 1;
        let id = state.next_ticket;
        let missing = ErrorCode::SegmentNotFound;
        let segment = state.segments.get_mut(&range.segment).ok_or(missing)?;
        let is_it =
            |entry: &&Entry| (entry.range.start, entry.version) == (range.offset, range.version);
        let entry = segment.entries.iter().find(is_it).ok_or(ErrorCode::ObjectNotFound)?;
        let end = range.from.checked_add(range.len).ok_or(ErrorCode::InvalidParams)?;
        if range.len == 0 || end > entry.range.end - entry.range.start {
            return Err(ErrorCode::InvalidParams);
        }
        let pinned = range.offset + range.from..range.offset + end;
        segment.pins.push(Pinned { id, range: pinned, interrupt });
        let (state, left) = (Arc::clone(&self.state), Arc::clone(&self.left));
        let keeper = Box::new(Keeper { state, left, segment: range.segment, id });
        Ok(Pin { region: Arc::clone(&segment.region), keeper })
    }

    fn share(&self, segment: SegmentId) -> Option<SharedSegment> {
        let state = self.lock();
        let segment = state.segments.get(&segment).filter(|_| !state.is_unshared);
        let Segment { region, slots, .. } = segment?;
        Some(SharedSegment { region: Arc::clone(region), slots: Arc::clone(slots) })
    }
}
