use std::collections::BTreeSet;

use mooncake_client::membership::{Deed, Lent, Membership};
use mooncake_meta::{Meta, Shadow};
use mooncake_node::{ChangedEntries, Ledger, ListedEntry, check_epoch};
use mooncake_ops::CallError;
use mooncake_types::{
    Chance, ChangesPage, ClientId, Epoch, ErrorCode, InventoryPage, RangeDrop, RangeWrite, Reply,
    Request, SegmentId, Tick,
};

use crate::cell::Cell;

/// Small enough that puts fill it all the time.
const SEGMENT_BYTES: u64 = 5632;

/// Few, so that inventories have several pages.
pub(crate) const PAGE_ENTRIES: usize = 3;

/// Few, so that a master that follows misses some.
const MAX_CHANGES: usize = 40;

/// A storage node: memory, a ledger, a membership; and what its data server is in the middle of.
pub(crate) struct Node {
    pub(crate) client: ClientId,
    pub(crate) segment: SegmentId,
    pub(crate) cells: Vec<Cell>,
    pub(crate) ledger: Ledger,
    pub(crate) epoch: Epoch,
    pub(crate) membership: Membership,
    pub(crate) alive: bool,
    /// Nothing gets through to or from it.
    pub(crate) cut: bool,
    /// Writers that were told to stop and may not have noticed.
    interrupted: BTreeSet<u64>,
    /// Writers whose connections broke; the server has not noticed.
    orphans: BTreeSet<u64>,
    /// Writers that the server has stopped; their clients do not know.
    stopped: BTreeSet<u64>,
}

impl Node {
    pub(crate) fn new(incarnation: u128, chance: &mut Chance) -> Self {
        let segment = SegmentId(incarnation);
        let mut membership = Membership::new(1, Chance::new(chance.bits()));
        let name = name_of(segment);
        let endpoint = name.clone();
        membership.lend(vec![Lent { id: segment, name, endpoint, len: SEGMENT_BYTES, run: 1 }]);
        let mut ledger = Ledger::new(SEGMENT_BYTES);
        ledger.number_changes(chance.below(1 << 40), MAX_CHANGES);
        Self {
            client: ClientId(incarnation),
            segment,
            cells: vec![Cell::default(); SEGMENT_BYTES as usize],
            ledger,
            epoch: Epoch(0),
            membership,
            alive: true,
            cut: false,
            interrupted: BTreeSet::new(),
            orphans: BTreeSet::new(),
            stopped: BTreeSet::new(),
        }
    }

    /// What callers know its segment by.
    pub(crate) fn name(&self) -> String {
        name_of(SegmentId(self.client.0))
    }

    /// What is known of its segment by who begins to follow it.
    pub(crate) fn shadow(&self) -> Shadow {
        Shadow::new(SEGMENT_BYTES).with_pages_of(2)
    }

    pub(crate) fn is_reachable(&self) -> bool {
        self.alive && !self.cut
    }

    /// Drops an entry that a client or the master named.
    pub(crate) fn drop_entry(&mut self, range: &RangeDrop) {
        let Self { segment, ledger, interrupted, .. } = self;
        Holding { segment, ledger, interrupted }.drop_entry(range);
    }

    pub(crate) fn begin(&mut self, epoch: Epoch, range: &RangeWrite<'_>) -> Result<u64, ErrorCode> {
        check_epoch(self.epoch, epoch, range.grant)?;
        let begun = self.ledger.begin(range)?;
        self.interrupted.extend(begun.superseded);
        Ok(begun.ticket)
    }

    /// The server notices some of what it should stop.
    pub(crate) fn notice(&mut self, chance: &mut Chance) {
        let due: Vec<u64> = self.interrupted.union(&self.orphans).copied().collect();
        for ticket in due {
            if chance.below(2) == 0 {
                self.end(ticket);
                self.ledger.abandon(ticket);
                self.stopped.insert(ticket);
            }
        }
    }

    /// The connection of this writer is gone; its server will find out.
    pub(crate) fn orphan(&mut self, ticket: u64) {
        if !self.stopped.contains(&ticket) {
            self.orphans.insert(ticket);
        }
    }

    pub(crate) fn has_stopped(&self, ticket: u64) -> bool {
        self.stopped.contains(&ticket)
    }

    pub(crate) fn is_interrupted(&self, ticket: u64) -> bool {
        self.interrupted.contains(&ticket)
    }

    /// The writer has completed or abandoned.
    pub(crate) fn end(&mut self, ticket: u64) {
        self.interrupted.remove(&ticket);
        self.orphans.remove(&ticket);
    }

    /// Everything that its heartbeat thread is due to do.
    pub(crate) fn beat(&mut self, now: Tick, master: &mut Master<'_>) {
        let Self { client, segment, ledger, membership, interrupted, epoch, cut, .. } = self;
        membership.see_epoch(*epoch);
        let mut holding = Some(Holding { segment, ledger, interrupted });
        beat(membership, &mut holding, *client, now, &mut master.cut_off_if(*cut));
        *epoch = membership.seen_epoch().max(*epoch);
    }
}

/// What a node has that a heartbeat is about.
pub(crate) struct Holding<'n> {
    segment: &'n mut SegmentId,
    ledger: &'n mut Ledger,
    interrupted: &'n mut BTreeSet<u64>,
}

impl Holding<'_> {
    fn start_empty(&mut self) -> SegmentId {
        let gone = self.ledger.drop_all();
        self.interrupted.extend(gone.superseded);
        self.segment.0 += 1 << 64;
        *self.segment
    }

    fn drop_entry(&mut self, range: &RangeDrop) {
        let gone = self.ledger.drop_version(range.offset, range.version, range.grant);
        self.interrupted.extend(gone.superseded);
    }
}

fn name_of(segment: SegmentId) -> String {
    format!("node {}", segment.0)
}

/// The master as a heartbeat finds it.
pub(crate) enum Master<'a> {
    Up(&'a mut Meta),
    Unreachable,
}

impl Master<'_> {
    fn cut_off_if(&mut self, cut: bool) -> Master<'_> {
        match self {
            Self::Up(meta) if !cut => Master::Up(meta),
            _ => Master::Unreachable,
        }
    }

    fn ask(
        &mut self,
        now: Tick,
        client: ClientId,
        request: &Request<'_>,
    ) -> Result<Reply, CallError> {
        match self {
            Self::Up(meta) => Ok(meta.handle(now, client, request)),
            Self::Unreachable => Err(CallError::TimedOut { after_ms: 1 }),
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        match self {
            Self::Up(meta) => Some(meta.epoch()),
            Self::Unreachable => None,
        }
    }
}

/// Everything that a heartbeat thread is due to do.
pub(crate) fn beat(
    membership: &mut Membership,
    holding: &mut Option<Holding<'_>>,
    client: ClientId,
    now: Tick,
    master: &mut Master<'_>,
) {
    loop {
        match (membership.next(now), holding.as_mut()) {
            (Deed::Wait { .. }, _) => return,
            (Deed::Connect { .. }, _) => {
                let epoch = master.epoch();
                membership.on_connected(now, epoch);
            }
            (Deed::Call(request), _) => {
                let reply = master.ask(now, client, &request);
                membership.on_reply(now, reply);
            }
            (Deed::Mount { segment, seen_epoch }, Some(node)) => {
                let request = segment.mount(seen_epoch, node.ledger.is_empty());
                let reply = master.ask(now, client, &request);
                membership.on_reply(now, reply);
            }
            (Deed::Report { segment, run, page, from }, Some(node)) => {
                let listed = node.ledger.inventory(from, PAGE_ENTRIES);
                let entries = listed.entries.iter().map(ListedEntry::report).collect();
                let last = listed.next.is_none();
                let page = InventoryPage { segment, run, page, last, entries };
                let reply = master.ask(now, client, &Request::ReportInventory(page));
                membership.on_reported(now, listed.next, reply);
            }
            (Deed::ReportChanges { segment, page, since }, Some(node)) => {
                let changed = node.ledger.changed(since, PAGE_ENTRIES);
                let Some(ChangedEntries { entries, gone, cursor, more }) = changed else {
                    membership.on_changes_forgotten();
                    continue;
                };
                let entries = entries.iter().map(ListedEntry::report).collect();
                let page = ChangesPage { segment, page, last: !more, entries, gone };
                let reply = master.ask(now, client, &Request::ReportChanges(page));
                membership.on_reported(now, more.then_some(cursor), reply);
            }
            (Deed::StartEmpty { .. }, Some(node)) => {
                let id = node.start_empty();
                membership.on_started_empty(now, Some(id));
            }
            (Deed::Drop(ranges), Some(node)) => {
                let dropped = ranges.to_vec();
                dropped.iter().for_each(|range| node.drop_entry(range));
                membership.on_dropped(dropped);
            }
            (_, None) => panic!("it lends nothing"),
        }
    }
}
