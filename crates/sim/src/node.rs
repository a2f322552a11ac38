//! A lent segment: the real segment machine, simulated memory, and the checks of what may never happen there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mooncake_node::{
    Admission, Effect, Entry, EntryState, Ledger, Losses, PROMISE, SegmentMachine, WriteRequest,
};
use mooncake_types::{
    Epoch, ErrorCode, Medium, RangeDrop, RangeRead, RangeWrite, SegmentId, Version,
};

use crate::extents::{Content, Extents, Piece};
use crate::ids::ConnId;
use crate::key::number_of;
use crate::published::{Rows, Slots};
use crate::run_state::RunState;

/// The writer that holds a ticket of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The node's server, on behalf of the peer on this connection.
    Peer(ConnId),
    /// A thread of the node's own process.
    Own,
}

/// A writer's ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriterTicket {
    /// The index of the segment among those of its process.
    pub(crate) node: usize,
    /// The ticket's number in the segment machine.
    pub(crate) id: u64,
}

/// The link between the machine and a writer. Through it the machine tells the writer to stop.
pub(crate) struct Handle {
    writer: Writer,
    is_interrupted: Cell<bool>,
}

/// One lent segment.
pub(crate) struct Node {
    machine: SegmentMachine<Rc<Handle>>,
    /// How many processes have lent the segment, the present one included.
    pub(crate) run: u64,
    /// Whether heartbeats name the segment. The process has neither taken it back nor is about to.
    pub(crate) is_lent: bool,
    pub(crate) name: &'static str,
    pub(crate) medium: Medium,
    /// The slots through which other processes of its host read.
    pub(crate) slots: Slots,
    /// The rows in which the next process finds complete entries, if the segment outlives its process. Then no other
    /// process may write its memory directly.
    rows: Option<Rows>,
    memory: Extents,
    /// For each byte, the last grant whose write began. Checked against the ledger's decisions.
    begun: Extents,
    /// The highest epoch that the segment was told.
    offered: Epoch,
    tickets: BTreeMap<u64, Ticket>,
    /// When the last promise about an entry at each offset ends.
    promised: BTreeMap<u64, Instant>,
    /// Changes since the last call of [`Node::take_changes`].
    changes: Vec<(Version, (u64, u64))>,
}

struct Ticket {
    range: RangeWrite<'static>,
    handle: Rc<Handle>,
}

/// Most changes that a ledger remembers; few, so that a following standby misses some at times.
const MAX_CHANGES: usize = 24;

/// Numbers the ledger's changes so that no other process's changes have the same numbers.
fn numbered(mut ledger: Ledger, segment: SegmentId, run: u64) -> Ledger {
    ledger.number_changes((segment.0 >> 32) as u64 + (run << 20), MAX_CHANGES);
    ledger
}

impl Node {
    pub(crate) fn new(segment: SegmentId, name: &'static str, len: u64, is_named: bool) -> Self {
        let rows = is_named.then(|| Rows::of(segment));
        Self::with_rows((segment, name, len), Medium::Memory, rows)
    }

    /// A segment on disk. It outlives its process, and other processes must ask the node for its entries.
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
            promised: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// Whether the segment outlives its process.
    pub(crate) fn is_named(&self) -> bool {
        self.rows.is_some()
    }

    /// The segment under the next process, or `None` if it ends with its process. Complete entries return, unless
    /// `has_room` drops their rows.
    pub(crate) fn start_again(
        self,
        mut has_room: impl FnMut(&mut RunState) -> bool,
        run_state: &mut RunState,
    ) -> Option<Self> {
        let mut rows = self.rows?;
        let ledger = self.machine.ledger().entries();
        let complete = ledger.filter(|(_, entry)| entry.state == EntryState::Complete);
        if !complete.eq(rows.entries.iter().map(|(&offset, entry)| (offset, entry))) {
            let text = format!("{:?} are the rows of {}", rows.entries, self.name);
            run_state.blame("the next process finds what was complete", text);
        }
        rows.entries.retain(|_, _| has_room(run_state));
        let run = self.run + 1;
        let ledger = numbered(rows.ledger(self.machine.ledger().len()), rows.segment, run);
        let machine = SegmentMachine::new(rows.segment, ledger, rows.epoch);
        let mut slots = Slots::default();
        if self.medium == Medium::Memory {
            // Simulated bytes are as they were written.
            for (offset, entry) in machine.ledger().entries() {
                machine.publish(offset, entry.grant, |effect| slots.carry_out(&effect));
            }
        }
        let (tickets, rows) = (BTreeMap::new(), Some(rows));
        Some(Self { machine, run, is_lent: true, slots, rows, tickets, ..self })
    }

    /// The present id.
    pub(crate) fn segment(&self) -> SegmentId {
        self.machine.id()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.machine.ledger()
    }

    /// The highest epoch that the segment obeys.
    pub(crate) fn epoch(&self) -> Epoch {
        self.machine.epoch()
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.machine.ledger().len()
    }

    /// The versions that writers wrote since the last call, with their ranges as (offset, length).
    pub(crate) fn take_changes(&mut self) -> Vec<(Version, (u64, u64))> {
        std::mem::take(&mut self.changes)
    }

    /// Applies a change to the machine and carries out its effects. Also returns the writers that must be told to
    /// stop.
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

    /// Refuses older epochs from now on.
    pub(crate) fn obey(&mut self, epoch: Epoch) {
        self.offered = self.offered.max(epoch);
        self.change(|machine, effects| machine.obey(epoch, effects));
    }

    /// Begins a write. Returns its ticket, and the writers that must be told to stop.
    pub(crate) fn begin(
        &mut self,
        (epoch, range): (Epoch, &RangeWrite<'static>),
        writer: Writer,
        (now, until): (Instant, Instant),
        run_state: &mut RunState,
    ) -> Result<(u64, Vec<Writer>), ErrorCode> {
        let handle = Rc::new(Handle { writer, is_interrupted: Cell::new(false) });
        let writer = Rc::clone(&handle);
        let request = WriteRequest { epoch, range, writer, now, until };
        let (begun, stop) = self.change(|machine, effects| machine.begin(request, effects));
        let ticket = begun?;
        self.check_begin(epoch, range, run_state);
        self.tickets.insert(ticket, Ticket { range: *range, handle });
        Ok((ticket, stop))
    }

    /// Whether a writer may change bytes now. If it is refused, its ticket ends.
    pub(crate) fn admit(&mut self, ticket: u64, now: Instant) -> Admission {
        let admission = self.machine.admit(ticket, now);
        if matches!(admission, Admission::Refused(_)) {
            self.forget(ticket);
        }
        admission
    }

    /// Promises to keep an entry for a while. A disk makes no promises.
    pub(crate) fn promise(&mut self, range: &RangeRead, now: Instant) -> Result<(), ErrorCode> {
        match self.medium {
            Medium::Memory => self.machine.promise(range, now)?,
            _ => return Err(ErrorCode::NoAvailableHandle),
        }
        self.promised.insert(range.offset, now + PROMISE);
        Ok(())
    }

    /// Whether readers may have a promise about the entry at an offset. Nodes promise only what they have checked, and
    /// never find it lost afterwards.
    pub(crate) fn is_promised(&self, offset: u64, now: Instant) -> bool {
        self.promised.get(&offset).is_some_and(|&until| now < until)
    }

    /// Makes no more promises. Returns how long the earlier ones still hold.
    pub(crate) fn end_promises(&mut self, now: Instant) -> Duration {
        self.machine.end_promises(now).unwrap_or_default()
    }

    /// Drops an entry. Returns the writers that must be told to stop.
    pub(crate) fn drop_range(
        &mut self,
        range: &RangeDrop,
        now: Instant,
    ) -> Result<Vec<Writer>, ErrorCode> {
        let (dropped, stop) =
            self.change(|machine, effects| machine.drop_entry(range, now, effects));
        dropped.map(|()| stop)
    }

    /// The bytes of a complete entry are lost. Returns its key and version, and the writers that must be told to stop.
    pub(crate) fn lose(&mut self, offset: u64, grant: Version) -> ((usize, Version), Vec<Writer>) {
        let entry = self.ledger().complete_at(offset).expect("it is complete");
        let lost = (number_of(&entry.key), entry.version);
        let (_, stop) = self.change(|machine, effects| machine.lose(offset, grant, effects));
        (lost, stop)
    }

    /// What was lost and is not known to be reported yet.
    pub(crate) fn losses(&self) -> &Losses {
        self.machine.losses()
    }

    /// The master knows all losses before this number.
    pub(crate) fn forget_losses_before(&mut self, number: u64) {
        self.machine.forget_losses_before(number);
    }

    /// Drops all entries, and gives the segment another id. Returns the writers that must be told to stop.
    pub(crate) fn start_empty(&mut self, segment: SegmentId) -> Vec<Writer> {
        let ((), stop) = self.change(|machine, effects| machine.start_empty(segment, effects));
        self.slots.open();
        stop
    }

    /// Whether the ledger has no entries, and the master knows all that were lost.
    pub(crate) fn is_empty(&self) -> bool {
        self.ledger().is_empty() && self.losses().is_empty()
    }

    /// Checks L3, and the first half of L7.
    fn check_begin(&mut self, epoch: Epoch, range: &RangeWrite<'static>, run_state: &mut RunState) {
        if epoch < self.offered {
            let text = format!("epoch {epoch} was obeyed after {} by {}", self.offered, self.name);
            run_state.blame("L3", text);
        }
        let newest = self.begun.overlapping(range.offset, range.entry_len);
        let newest = newest.filter_map(|(_, piece)| piece.content).map(|content| content.grant);
        if let Some(newest) = newest.max().filter(|newest| *newest > range.grant) {
            run_state.blame("L7", format!("{range:?} began after {newest} in {}", self.name));
        }
        let (version, grant) = (range.version, range.grant);
        let content = Content { key: 0, version, at: 0, grant };
        self.begun.write(range.offset, &[Piece { len: range.entry_len, content: Some(content) }]);
    }

    /// A writer that may be at work in a range under an older leader's grant. Writers that were told to stop do not
    /// count: the node makes newer writers wait for them.
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

    /// Writes bytes for a writer, `from` bytes after the start of its part of the entry.
    pub(crate) fn change_bytes(
        &mut self,
        ticket: u64,
        from: u64,
        pieces: &[Piece],
        run_state: &mut RunState,
    ) {
        let range = self.tickets[&ticket].range;
        self.land(&range, from, pieces, run_state);
    }

    /// Writes bytes of a range that its writer began, whether or not the write has ended since.
    pub(crate) fn land(
        &mut self,
        range: &RangeWrite<'_>,
        from: u64,
        pieces: &[Piece],
        run_state: &mut RunState,
    ) {
        let offset = range.offset + range.from + from;
        let len = pieces.iter().map(|piece| piece.len).sum();
        self.check_change(range, offset, len, run_state);
        self.changes.push((range.version, (offset, len)));
        let own = |piece: &Piece| {
            let content = piece.content.map(|content| Content { grant: range.grant, ..content });
            Piece { content, ..*piece }
        };
        let pieces: Vec<Piece> = pieces.iter().map(own).collect();
        self.memory.write(offset, &pieces);
    }

    /// Checks L1, and the second half of L7.
    fn check_change(
        &self,
        range: &RangeWrite<'_>,
        offset: u64,
        len: u64,
        run_state: &mut RunState,
    ) {
        let touched = |at: u64, entry: &Entry| at < offset + len && offset < at + entry.len;
        let complete = self.ledger().entries().filter(|(_, it)| it.state == EntryState::Complete);
        let rows = self.rows.iter().flat_map(|rows| &rows.entries).map(|(&at, entry)| (at, entry));
        for (at, entry) in complete.chain(rows).filter(|(at, entry)| touched(*at, entry)) {
            let text = format!(
                "{offset}+{len} of {} changes under {range:?}; there stands {entry:?} at {at}",
                self.name
            );
            run_state.blame("L1", text);
        }
        if let Some(slot) = self.slots.overlapping(offset, len) {
            let text = format!("{offset}+{len} of {} changes; {slot:?} is shown", self.name);
            run_state.blame("L1", text);
        }
        let there = self.memory.overlapping(offset, len).filter_map(|(_, piece)| piece.content);
        let newer = there.map(|content| content.grant).max().filter(|it| *it > range.grant);
        if let Some(newer) = newer {
            let text = format!("{offset}+{len} of {}: {range:?} lands on {newer}", self.name);
            run_state.blame("L7", text);
        }
    }

    /// Completes a write, and checks L2: the entry's bytes must all be there.
    pub(crate) fn complete(
        &mut self,
        ticket: u64,
        run_state: &mut RunState,
    ) -> Result<(), ErrorCode> {
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
                run_state.blame("L2", text);
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

    /// The grant under which this version was written, if the version lies in the range.
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
