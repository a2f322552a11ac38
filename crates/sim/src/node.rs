//! The memory that a process lends, its ledger, and what must never be seen of them.

use std::collections::BTreeMap;

use mooncake_node::{Clearance, EntryState, Ledger, check_drop, check_epoch};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use crate::desk::Desk;
use crate::extents::{Content, Extents, Piece};
use crate::net::ConnId;

/// Who holds a ticket of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The server, for a peer.
    Peer(ConnId),
    /// A thread of the node's own process.
    Own,
}

/// One lent segment.
pub(crate) struct Node {
    pub(crate) segment: SegmentId,
    /// Whether it outlives its process: then no other process is given its memory.
    pub(crate) is_named: bool,
    /// How many processes have lent it.
    pub(crate) run: u64,
    /// The pool has it, as far as this knows, and is to keep it.
    pub(crate) is_lent: bool,
    /// What it was called before it had to start empty.
    former: Vec<SegmentId>,
    pub(crate) name: &'static str,
    len: u64,
    pub(crate) ledger: Ledger,
    memory: Extents,
    /// The grants that have begun, at every byte the last one: what the ledger must go by.
    begun: Extents,
    /// The highest grant that began, or that something was dropped by.
    floor: Option<Version>,
    /// The highest epoch that was offered.
    offered: Epoch,
    tickets: BTreeMap<u64, Ticket>,
    /// What changed since this was last asked.
    changes: Vec<(Version, (u64, u64))>,
}

#[derive(Clone, Copy, Debug)]
struct Ticket {
    writer: Writer,
    range: RangeWrite<'static>,
    is_interrupted: bool,
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
        Self {
            segment,
            is_named,
            run: 1,
            is_lent: true,
            former: Vec::new(),
            name,
            len,
            ledger: numbered(Ledger::new(len), segment, 1),
            memory: Extents::default(),
            begun: Extents::default(),
            floor: None,
            offered: Epoch(0),
            tickets: BTreeMap::new(),
            changes: Vec::new(),
        }
    }

    /// The same memory under the next process: what was complete is there again, if there was room to remember it.
    pub(crate) fn start_again(self, mut is_kept: impl FnMut() -> bool) -> Self {
        let mut ledger = Ledger::new(self.len);
        for (offset, entry) in self.ledger.entries() {
            if entry.state != EntryState::Complete || !is_kept() {
                continue;
            }
            let range = RangeWrite {
                segment: self.segment,
                offset,
                from: 0,
                len: entry.len,
                entry_len: entry.len,
                key: &entry.key,
                version: entry.version,
                grant: entry.grant,
                object_len: entry.object_len,
                object_offset: entry.object_offset,
                attributes: &entry.attributes,
            };
            ledger.restore(&range, None).expect("it was there before");
        }
        ledger.refuse_up_to(self.floor);
        let (run, former, tickets) = (self.run + 1, Vec::new(), BTreeMap::new());
        let ledger = numbered(ledger, self.segment, run);
        Self { run, is_lent: true, former, ledger, tickets, ..self }
    }

    /// The ranges that changed, and the version that was written there.
    pub(crate) fn take_changes(&mut self) -> Vec<(Version, (u64, u64))> {
        std::mem::take(&mut self.changes)
    }

    /// As the host of segments does it; gives the ticket, and who is to be told to stop.
    pub(crate) fn begin(
        &mut self,
        seen: Epoch,
        epoch: Epoch,
        range: &RangeWrite<'static>,
        writer: Writer,
        desk: &mut Desk,
    ) -> Result<(u64, Vec<Writer>), ErrorCode> {
        if range.segment != self.segment {
            return Err(ErrorCode::SegmentNotFound);
        }
        self.offered = self.offered.max(seen);
        check_epoch(seen, epoch, range.grant)?;
        let begun = self.ledger.begin(range)?;
        self.floor = self.floor.max(Some(range.grant));
        self.check_begin(epoch, range, desk);
        self.tickets.insert(begun.ticket, Ticket { writer, range: *range, is_interrupted: false });
        let stop = self.interrupt(begun.superseded);
        Ok((begun.ticket, stop))
    }

    /// Writers that are to stop, of these tickets.
    fn interrupt(&mut self, tickets: Vec<u64>) -> Vec<Writer> {
        let mut stop = Vec::new();
        for ticket in tickets {
            let older = self.tickets.get_mut(&ticket).expect("it has not ended");
            older.is_interrupted = true;
            stop.push(older.writer);
        }
        stop
    }

    /// Drops an entry, if it was named by the leader of this epoch or a later one; gives who is to be told to stop.
    pub(crate) fn drop_range(
        &mut self,
        range: &RangeDrop,
        epoch: Epoch,
    ) -> Result<Vec<Writer>, ErrorCode> {
        let RangeDrop { segment, offset, version, grant } = *range;
        if segment == self.segment {
            check_drop(epoch, grant)?;
            let gone = self.ledger.drop_version(offset, version, grant);
            self.floor = self.floor.max(Some(grant));
            return Ok(self.interrupt(gone.superseded));
        }
        // What had a former id was dropped when it lost that.
        match self.former.contains(&segment) {
            true => Ok(Vec::new()),
            false => Err(ErrorCode::SegmentNotFound),
        }
    }

    /// Drops all that lies here, and has another id from then on.
    pub(crate) fn start_empty(&mut self, segment: SegmentId) -> Vec<Writer> {
        self.former.push(std::mem::replace(&mut self.segment, segment));
        let gone = self.ledger.drop_all();
        self.interrupt(gone.superseded)
    }

    /// Its length in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }

    /// Drops all that lies here. Whoever asks for it finds nothing: it is called as no other ever was, and nobody is told.
    pub(crate) fn withdraw(&mut self) -> Vec<Writer> {
        self.segment = SegmentId(self.segment.0 + 1);
        let gone = self.ledger.drop_all();
        self.interrupt(gone.superseded)
    }

    /// Whether nothing lies here.
    pub(crate) fn is_empty(&self) -> bool {
        self.ledger.is_empty()
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
        let at_work = self.tickets.values().filter(|ticket| !ticket.is_interrupted);
        let ranges = at_work.map(|ticket| ticket.range);
        let is_older = |range: &RangeWrite<'_>| {
            range.grant.epoch < epoch
                && range.offset < offset + len
                && offset < range.offset + range.entry_len
        };
        let mut older = ranges.filter(is_older);
        older.next()
    }

    pub(crate) fn clearance(&self, ticket: u64) -> Clearance {
        self.ledger.clearance(ticket)
    }

    /// Whether the writer was told to stop.
    pub(crate) fn is_interrupted(&self, ticket: u64) -> bool {
        self.tickets.get(&ticket).is_some_and(|ticket| ticket.is_interrupted)
    }

    /// A writer changes bytes, from `from` on in its part.
    pub(crate) fn change(&mut self, ticket: u64, from: u64, pieces: &[Piece], desk: &mut Desk) {
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
        let touched = |(at, entry_len): (u64, u64)| at < offset + len && offset < at + entry_len;
        for (at, entry) in self.ledger.entries() {
            if entry.state == EntryState::Complete && touched((at, entry.len)) {
                let text = format!(
                    "{offset}+{len} of {} changes under {range:?}; there stands {entry:?} at {at}",
                    self.name
                );
                desk.blame("L1", text);
            }
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
        self.ledger.complete(ticket, Vec::new())?;
        if let Some(entry) = self.ledger.complete_at(range.offset) {
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
        self.ledger.abandon(ticket);
    }

    fn forget(&mut self, ticket: u64) -> RangeWrite<'static> {
        self.tickets.remove(&ticket).expect("it has not ended").range
    }

    /// Whether that version lies there; gives the grant that it was written under.
    pub(crate) fn find(&self, range: &RangeRead) -> Result<Version, ErrorCode> {
        if range.segment != self.segment {
            return Err(ErrorCode::ObjectNotFound);
        }
        Ok(self.ledger.read(range)?.grant)
    }

    pub(crate) fn still_holds(&self, range: &RangeRead, grant: Version) -> bool {
        range.segment == self.segment && self.ledger.still_holds(range.offset, range.version, grant)
    }

    pub(crate) fn copy_out(&self, offset: u64, len: u64) -> Vec<Piece> {
        self.memory.read(offset, len)
    }
}
