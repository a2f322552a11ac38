use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mooncake_memory::Region;
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, SegmentId, Version};

use crate::{Interrupt, ReadTicket, SegmentHost, WriteTicket};

/// Called when a read has got its ticket, before a byte is copied.
type ReadHook = Box<dyn Fn(&MemoryHost, &ReadTicket) + Send + Sync>;

/// A node's memory and ledger, without the node. Slow on purpose where that is simpler.
#[derive(Default)]
pub struct MemoryHost {
    state: Mutex<State>,
    left: Condvar,
    hook: Mutex<Option<Arc<ReadHook>>>,
}

#[derive(Default)]
struct State {
    seen: Epoch,
    next_ticket: u64,
    segments: HashMap<SegmentId, Segment>,
}

struct Segment {
    region: Arc<Region>,
    entries: Vec<Entry>,
    begun: Vec<(Range<u64>, Version)>,
    writers: Vec<Writer>,
}

struct Entry {
    range: Range<u64>,
    version: Version,
    checksums: Arc<[u32]>,
}

struct Writer {
    id: u64,
    range: Range<u64>,
    version: Version,
    interrupt: Arc<dyn Interrupt>,
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
        let (entries, begun, writers) = (Vec::new(), Vec::new(), Vec::new());
        host.lock().segments.insert(segment, Segment { region, entries, begun, writers });
        Arc::new(host)
    }

    /// Runs `hook` between the ticket and the copy of every read from now on.
    pub fn on_read(&self, hook: impl Fn(&MemoryHost, &ReadTicket) + Send + Sync + 'static) {
        let hook: ReadHook = Box::new(hook);
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Drops every entry of a segment, as a removal would.
    pub fn drop_entries(&self, segment: SegmentId) {
        if let Some(segment) = self.lock().segments.get_mut(&segment) {
            segment.entries.clear();
        }
    }

    /// The segment's memory.
    #[must_use]
    pub fn region(&self, segment: SegmentId) -> Option<Arc<Region>> {
        Some(Arc::clone(&self.lock().segments.get(&segment)?.region))
    }

    /// Writers that have begun and neither completed nor abandoned.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.lock().segments.values().map(|segment| segment.writers.len()).sum()
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_writer(state: &mut State, ticket: &WriteTicket) -> Option<Writer> {
        let writers = &mut state.segments.get_mut(&ticket.segment)?.writers;
        let index = writers.iter().position(|writer| writer.id == ticket.id)?;
        Some(writers.swap_remove(index))
    }
}

impl Segment {
    fn is_superseded(&self, range: &Range<u64>, version: Version) -> bool {
        self.begun.iter().any(|(other, begun)| overlap(other, range) && *begun > version)
    }

    /// Interrupts everybody in the range and says whether anybody is.
    fn interrupt(&self, range: &Range<u64>) -> bool {
        let there = self.writers.iter().filter(|writer| overlap(&writer.range, range));
        there.inspect(|writer| writer.interrupt.interrupt()).count() > 0
    }
}

impl SegmentHost for MemoryHost {
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
        let span = range.offset..range.offset.saturating_add(range.len);
        loop {
            let segment =
                state.segments.get_mut(&range.segment).ok_or(ErrorCode::SegmentNotFound)?;
            segment.region.slice(range.offset, range.len).map_err(|_| ErrorCode::InvalidParams)?;
            if segment.is_superseded(&span, range.version) {
                return Err(ErrorCode::InvalidVersion);
            }
            segment.begun.retain(|(other, _)| *other != span);
            segment.begun.push((span.clone(), range.version));
            segment.entries.retain(|entry| !overlap(&entry.range, &span));
            if !segment.interrupt(&span) {
                break;
            }
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.next_ticket += 1;
        let id = state.next_ticket;
        let segment = state.segments.get_mut(&range.segment).ok_or(ErrorCode::SegmentNotFound)?;
        segment.writers.push(Writer { id, range: span, version: range.version, interrupt });
        let region = Arc::clone(&segment.region);
        let memory = region.slice(range.offset, range.len).map_err(|_| ErrorCode::InvalidParams)?;
        Ok(WriteTicket { memory, region, id, segment: range.segment })
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        debug_assert_eq!(
            checksums,
            ticket.memory.chunk_crcs(),
            "checksums are those of the memory"
        );
        let mut state = self.lock();
        let writer = Self::take_writer(&mut state, &ticket).ok_or(ErrorCode::InternalError)?;
        self.left.notify_all();
        let segment = state.segments.get_mut(&ticket.segment).ok_or(ErrorCode::SegmentNotFound)?;
        if segment.is_superseded(&writer.range, writer.version) {
            return Err(ErrorCode::InvalidVersion);
        }
        let (range, version) = (writer.range, writer.version);
        segment.entries.push(Entry { range, version, checksums: checksums.into() });
        Ok(())
    }

    fn abandon_write(&self, ticket: WriteTicket) {
        Self::take_writer(&mut self.lock(), &ticket);
        self.left.notify_all();
    }

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
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
                .slice(range.offset + range.from, range.len)
                .map_err(|_| ErrorCode::InvalidParams)?;
            let checksums = (range.len == entry_len).then(|| Arc::clone(&entry.checksums));
            let region = Arc::clone(&segment.region);
            let (segment, offset, version) = (range.segment, range.offset, range.version);
            ReadTicket { memory, region, checksums, segment, offset, version }
        };
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook(self, &ticket);
        }
        Ok(ticket)
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let state = self.lock();
        state.segments.get(&ticket.segment).is_some_and(|segment| {
            segment
                .entries
                .iter()
                .any(|entry| entry.range.start == ticket.offset && entry.version == ticket.version)
        })
    }
}
