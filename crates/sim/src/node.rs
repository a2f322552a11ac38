//! The memory that a process lends: the real machine of a segment, and what must never be seen of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mooncake_node::{Admission, Effect, Entry, EntryState, Ledger, SegmentMachine, WriteRequest};
use mooncake_types::{
    Epoch, ErrorCode, Medium, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
};

use crate::desk::Desk;
use crate::extents::{Content, Extents, Piece};
use crate::ids::ConnId;
use crate::published::{Rows, Slots};

/// Who holds a ticket of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The server, for a peer.
    Peer(ConnId),
    /// A thread of the node's own process.
    Own,
}

/// A writer's ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterTicket {
    /// Which of the segments of its process.
    pub(crate) node: usize,
    /// What the machine calls it.
    pub(crate) id: u64,
}

/// How the machine reaches a writer.
pub(crate) struct Handle {
    writer: Writer,
    is_interrupted: Cell<bool>,
}

/// One lent segment.
pub(crate) struct Node {
    machine: SegmentMachine<Rc<Handle>>,
    /// How many processes have lent it.
    pub(crate) run: u64,
    /// The pool has it, as far as this knows, and is to keep it.
    pub(crate) is_lent: bool,
    pub(crate) name: &'static str,
    pub(crate) medium: Medium,
    /// By which processes of its host read it.
    pub(crate) slots: Slots,
    /// By which the next process finds what was complete, if the segment outlives its process: then no other process is
    /// given its memory.
    rows: Option<Rows>,
    memory: Extents,
    /// The grants that have begun, at every byte the last one: what the ledger must go by.
    begun: Extents,
    /// The highest epoch that was offered.
    offered: Epoch,
    tickets: BTreeMap<u64, Ticket>,
    /// What changed since this was last asked.
    changes: Vec<(Version, (u64, u64))>,
}

struct Ticket {
    range: RangeWrite<'static>,
    handle: Rc<Handle>,
}

/// Most changes that a node remembers: few, so that a master that follows misses some now and then.
const MAX_CHANGES: usize = 24;

/// Whose changes have numbers that those under no other process have.
fn numbered(mut ledger: Ledger, segment: SegmentId, run: u64) -> Ledger {
    ledger.number_changes((segment.0 >> 32) as u64 + (run << 20), MAX_CHANGES);
    ledger
}

impl Node {
    pub(crate) fn new(segment: SegmentId, name: &'static str, len: u64, is_named: bool) -> Self {
        let rows = is_named.then(|| Rows::of(segment));
        Self::with_rows((segment, name, len), Medium::Memory, rows)
    }

    /// A disk: it outlives its process, and no other process finds anything there without asking.
    pub(crate) fn disk(segment: SegmentId, name: &'static str, len: u64) -> Self {
        let rows = Rows::of(segment).without_floor();
        Self::with_rows((segment, name, len), Medium::Disk, Some(rows))
    }

    fn with_rows(
        (segment, name, len): (SegmentId, &'static str, u64),
        medium: Medium,
        rows: Option<Rows>,
    ) -> Self {
        let ledger = numbered(Ledger::new(len), segment, 1);
        Self {
            machine: SegmentMachine::new(segment, ledger, Epoch(0)),
            run: 1,
            is_lent: true,
            name,
            medium,
            slots: Slots::default(),
            rows,
            memory: Extents::default(),
            begun: Extents::default(),
            offered: Epoch(0),
            tickets: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Whether it outlives its process.
    pub(crate) fn is_named(&self) -> bool {
        self.rows.is_some()
    }

    /// The same memory under the next process, if it outlives the one before: what has a row is there again, if there was
    /// room to remember it.
    pub(crate) fn start_again(
        self,
        mut has_room: impl FnMut(&mut Desk) -> bool,
        desk: &mut Desk,
    ) -> Option<Self> {
        let mut rows = self.rows?;
        let ledger = self.machine.ledger().entries();
        let complete = ledger.filter(|(_, entry)| entry.state == EntryState::Complete);
        if !complete.eq(rows.entries.iter().map(|(&offset, entry)| (offset, entry))) {
            let text = format!("{:?} are the rows of {}", rows.entries, self.name);
            desk.blame("the next process finds what was complete", text);
        }
        rows.entries.retain(|_, _| has_room(desk));
        let run = self.run + 1;
        let ledger = numbered(rows.ledger(self.machine.ledger().len()), rows.segment, run);
        let machine = SegmentMachine::new(rows.segment, ledger, rows.epoch);
        let mut slots = Slots::default();
        if self.medium == Medium::Memory {
            machine.fill_slots(|effect| slots.carry_out(&effect));
        }
        let (tickets, rows) = (BTreeMap::new(), Some(rows));
        Some(Self { machine, run, is_lent: true, slots, rows, tickets, ..self })
    }

    /// What it is called now.
    pub(crate) fn segment(&self) -> SegmentId {
        self.machine.id()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.machine.ledger()
    }

    /// The highest epoch that it obeys.
    pub(crate) fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.machine.ledger().len()
    }

    /// The ranges that changed, and the version that was written there.
    pub(crate) fn take_changes(&mut self) -> Vec<(Version, (u64, u64))> {
        std::mem::take(&mut self.changes)
    }

    /// Has the machine change something, and does what that asks for; gives who is to be told to stop, too.
    fn change<T>(
        &mut self,
        change: impl FnOnce(
            &mut SegmentMachine<Rc<Handle>>,
            &mut dyn FnMut(Effect<'_, Rc<Handle>>),
        ) -> T,
    ) -> (T, Vec<Writer>) {
        let Self { machine, slots, rows, medium, .. } = self;
        let mut stop = Vec::new();
        let changed = change(machine, &mut |effect| {
            if *medium == Medium::Memory {
                slots.carry_out(&effect);
            }
            rows.iter_mut().for_each(|rows| rows.carry_out(&effect));
            if let Effect::Interrupt(handle) = effect {
                handle.is_interrupted.set(true);
                stop.push(handle.writer);
            }
        });
        (changed, stop)
    }

    /// Obeys an epoch from now on.
    pub(crate) fn obey(&mut self, epoch: Epoch) {
        self.offered = self.offered.max(epoch);
        self.change(|machine, effects| machine.obey(epoch, effects));
    }

    /// Takes a range for a writer; gives its ticket, and who is to be told to stop.
    pub(crate) fn begin(
        &mut self,
        (epoch, range): (Epoch, &RangeWrite<'static>),
        writer: Writer,
        (now, until): (Instant, Instant),
        desk: &mut Desk,
    ) -> Result<(u64, Vec<Writer>), ErrorCode> {
        let handle = Rc::new(Handle { writer, is_interrupted: Cell::new(false) });
        let writer = Rc::clone(&handle);
        let request = WriteRequest { epoch, range, writer, now, until };
        let (begun, stop) = self.change(|machine, effects| machine.begin(request, effects));
        let ticket = begun?;
        self.check_begin(epoch, range, desk);
        self.tickets.insert(ticket, Ticket { range: *range, handle });
        Ok((ticket, stop))
    }

    /// Whether a writer may change bytes. Its ticket is over if not.
    pub(crate) fn admit(&mut self, ticket: u64, now: Instant) -> Admission {
        let admission = self.machine.admit(ticket, now);
        if matches!(admission, Admission::Refused(_)) {
            self.forget(ticket);
        }
        admission
    }

    /// Promises to hold an entry for a while; a disk does not.
    pub(crate) fn promise(&mut self, range: &RangeRead, now: Instant) -> Result<(), ErrorCode> {
        match self.medium {
            Medium::Memory => self.machine.promise(range, now),
            _ => Err(ErrorCode::NoAvailableHandle),
        }
    }

    /// Promises nothing any more; gives how long what was promised still holds.
    pub(crate) fn end_promises(&mut self, now: Instant) -> Duration {
        self.machine.end_promises(now).unwrap_or_default()
    }

    /// Drops an entry; gives who is to be told to stop.
    pub(crate) fn drop_range(
        &mut self,
        range: &RangeDrop,
        now: Instant,
    ) -> Result<Vec<Writer>, ErrorCode> {
        let (dropped, stop) =
            self.change(|machine, effects| machine.drop_entry(range, now, effects));
        dropped.map(|()| stop)
    }

    /// Drops all that lies here, and has another id from then on.
    pub(crate) fn start_empty(&mut self, segment: SegmentId) -> Vec<Writer> {
        let ((), stop) = self.change(|machine, effects| machine.start_empty(segment, effects));
        self.slots.open();
        stop
    }

    /// Whether nothing lies here.
    pub(crate) fn is_empty(&self) -> bool {
        self.ledger().is_empty()
    }

    /// L3, and the first half of L7.
    fn check_begin(&mut self, epoch: Epoch, range: &RangeWrite<'static>, desk: &mut Desk) {
        if epoch < self.offered {
            let text = format!("epoch {epoch} was obeyed after {} by {}", self.offered, self.name);
            desk.blame("L3", text);
        }
        let newest = self.begun.overlapping(range.offset, range.entry_len);
        let newest = newest.filter_map(|(_, piece)| piece.content).map(|content| content.grant);
        if let Some(newest) = newest.max().filter(|newest| *newest > range.grant) {
            desk.blame("L7", format!("{range:?} began after {newest} in {}", self.name));
        }
        let (version, grant) = (range.version, range.grant);
        let content = Content { key: 0, version, at: 0, grant };
        self.begun.write(range.offset, &[Piece { len: range.entry_len, content: Some(content) }]);
    }

    /// A writer that may be at work in a range under a grant of an older leader, and was not told to stop: for one that
    /// was, the node has newer ones wait.
    pub(crate) fn older_writer(
        &self,
        (offset, len): (u64, u64),
        epoch: Epoch,
    ) -> Option<RangeWrite<'static>> {
        let at_work = self.tickets.values().filter(|ticket| !ticket.handle.is_interrupted.get());
        let ranges = at_work.map(|ticket| ticket.range);
        let is_older = |range: &RangeWrite<'_>| {
            range.grant.epoch < epoch
                && range.offset < offset + len
                && offset < range.offset + range.entry_len
        };
        let mut older = ranges.filter(is_older);
        older.next()
    }

    /// Whether the writer was told to stop.
    pub(crate) fn is_interrupted(&self, ticket: u64) -> bool {
        self.tickets.get(&ticket).is_some_and(|ticket| ticket.handle.is_interrupted.get())
    }

    /// A writer changes bytes, from `from` on in its part.
    pub(crate) fn change_bytes(
        &mut self,
        ticket: u64,
        from: u64,
        pieces: &[Piece],
        desk: &mut Desk,
    ) {
        let range = self.tickets[&ticket].range;
        let offset = range.offset + range.from + from;
        let len = pieces.iter().map(|piece| piece.len).sum();
        self.check_change(&range, offset, len, desk);
        self.changes.push((range.version, (offset, len)));
        let own = |piece: &Piece| {
            let content = piece.content.map(|content| Content { grant: range.grant, ..content });
            Piece { content, ..*piece }
        };
        let pieces: Vec<Piece> = pieces.iter().map(own).collect();
        self.memory.write(offset, &pieces);
    }

    /// L1, and the second half of L7.
    fn check_change(&self, range: &RangeWrite<'_>, offset: u64, len: u64, desk: &mut Desk) {
        let touched = |at: u64, entry: &Entry| at < offset + len && offset < at + entry.len;
        let complete = self.ledger().entries().filter(|(_, it)| it.state == EntryState::Complete);
        let rows = self.rows.iter().flat_map(|rows| &rows.entries).map(|(&at, entry)| (at, entry));
        for (at, entry) in complete.chain(rows).filter(|(at, entry)| touched(*at, entry)) {
            let text = format!(
                "{offset}+{len} of {} changes under {range:?}; there stands {entry:?} at {at}",
                self.name
            );
            desk.blame("L1", text);
        }
        if let Some(slot) = self.slots.overlapping(offset, len) {
            let text = format!("{offset}+{len} of {} changes; {slot:?} is shown", self.name);
            desk.blame("L1", text);
        }
        let there = self.memory.overlapping(offset, len).filter_map(|(_, piece)| piece.content);
        let newer = there.map(|content| content.grant).max().filter(|it| *it > range.grant);
        if let Some(newer) = newer {
            let text = format!("{offset}+{len} of {}: {range:?} lands on {newer}", self.name);
            desk.blame("L7", text);
        }
    }

    /// A writer says that all its bytes are in place.
    pub(crate) fn complete(&mut self, ticket: u64, desk: &mut Desk) -> Result<(), ErrorCode> {
        let range = self.forget(ticket);
        self.change(|machine, effects| machine.complete(ticket, Vec::new(), effects)).0?;
        if let Some(entry) = self.ledger().complete_at(range.offset) {
            let at = entry.object_offset;
            let pieces = self.memory.read(range.offset, entry.len);
            let is_right = |piece: &Piece| {
                piece.content.is_some_and(|it| {
                    (it.version, it.grant, it.at) == (entry.version, entry.grant, at)
                })
            };
            if pieces.len() != 1 || !is_right(&pieces[0]) {
                let text =
                    format!("{entry:?} at {} of {} holds {pieces:?}", range.offset, self.name);
                desk.blame("L2", text);
            }
        }
        Ok(())
    }

    pub(crate) fn abandon(&mut self, ticket: u64) {
        self.forget(ticket);
        self.machine.abandon(ticket);
    }

    fn forget(&mut self, ticket: u64) -> RangeWrite<'static> {
        self.tickets.remove(&ticket).expect("it has not ended").range
    }

    /// Whether that version lies there; gives the grant that it was written under.
    pub(crate) fn find(&self, range: &RangeRead) -> Result<Version, ErrorCode> {
        Ok(self.machine.read(range)?.grant)
    }

    pub(crate) fn still_holds(&self, range: &RangeRead, grant: Version) -> bool {
        self.ledger().still_holds(range.offset, range.version, grant)
    }

    pub(crate) fn copy_out(&self, offset: u64, len: u64) -> Vec<Piece> {
        self.memory.read(offset, len)
    }
}
