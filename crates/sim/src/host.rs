//! The half of a process that lends memory.

use std::collections::BTreeMap;

use mooncake_node::{Admission, EntryState, LentSegments};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use crate::ids::{ConnId, Process};
use crate::net::{Event, Net};
use crate::node::{Node, Writer, WriterTicket};
use crate::one_sided::Doors;
use crate::published::Stale;
use crate::run_state::RunState;
use crate::service::Service;

/// The segments that a process lends, if any, and the connections that it serves.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) is_alive: bool,
    /// The id of each segment, and the epoch that the process obeys.
    names: LentSegments<usize>,
    /// The segment in memory, if any, and then the disk.
    pub(crate) nodes: Vec<Node>,
    pub(crate) services: BTreeMap<ConnId, Service>,
    /// Through which peers of other hosts write.
    pub(crate) doors: Doors,
}

impl Host {
    pub(crate) fn new(process: Process, nodes: Vec<Node>) -> Self {
        let (names, services, doors) = Default::default();
        let mut host = Self { process, is_alive: true, names, nodes, services, doors };
        (0..host.nodes.len()).for_each(|node| host.lend(node));
        host
    }

    /// Serves a segment under its present id from now on.
    fn lend(&mut self, node: usize) {
        let (segment, epoch) = (self.nodes[node].segment(), self.nodes[node].epoch());
        self.names.lend(segment, node);
        self.see_epoch(epoch);
    }

    /// The run number of the lent segments: how many processes have lent them, this one included.
    pub(crate) fn run(&self) -> u64 {
        self.nodes.iter().map(|node| node.run).max().unwrap_or(1)
    }

    /// The ids of the segments that are lent at the moment.
    pub(crate) fn own(&self) -> Vec<SegmentId> {
        self.nodes.iter().filter(|node| node.is_lent).map(Node::segment).collect()
    }

    /// The highest epoch that the process has seen.
    pub(crate) fn epoch(&self) -> Epoch {
        self.names.epoch()
    }

    pub(crate) fn see_epoch(&mut self, epoch: Epoch) {
        let Self { names, nodes, .. } = self;
        names.obey(epoch, |node, epoch| nodes[*node].obey(epoch));
    }

    /// The segment in memory. Panics if the process lends none.
    pub(crate) fn memory(&mut self) -> &mut Node {
        self.nodes.first_mut().expect("a process that lends something lends memory")
    }

    /// The segment in which this ticket's writer writes.
    pub(crate) fn node_of(&mut self, ticket: WriterTicket) -> &mut Node {
        &mut self.nodes[ticket.node]
    }

    /// The segment that has this id.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<&Node> {
        self.names.find(id).ok().map(|&node| &self.nodes[node])
    }

    /// The segment that has this id, or had it earlier.
    pub(crate) fn segment_ever(&self, id: SegmentId) -> Option<&Node> {
        self.names.find_ever(id).ok().map(|&node| &self.nodes[node])
    }

    /// Begins a write, and tells older writers of its range to stop.
    pub(crate) fn begin_write(
        &mut self,
        write: (Epoch, &RangeWrite<'static>),
        (writer, patience_us): (Writer, u64),
        net: &mut Net,
        run_state: &mut RunState,
    ) -> Result<WriterTicket, ErrorCode> {
        let node = *self.names.find(write.1.segment)?;
        let times = (net.instant(net.now_us), net.instant(net.now_us + patience_us));
        let (id, stop) = self.nodes[node].begin(write, writer, times, run_state)?;
        self.stop(stop, net);
        Ok(WriterTicket { node, id })
    }

    /// Whether a writer may change bytes now. If it is refused, its ticket ends.
    pub(crate) fn admit(&mut self, ticket: WriterTicket, net: &Net) -> Admission {
        self.node_of(ticket).admit(ticket.id, net.instant(net.now_us))
    }

    /// Drops an entry, and tells its writers to stop.
    pub(crate) fn drop_range(&mut self, range: &RangeDrop, net: &mut Net) -> Result<(), ErrorCode> {
        let node = *self.names.find_ever(range.segment)?;
        let stop = self.nodes[node].drop_range(range, net.instant(net.now_us))?;
        self.stop(stop, net);
        Ok(())
    }

    /// The entries of all lent segments that may be lost: the segment's number, the offset and the grant.
    pub(crate) fn losable(&self, net: &Net) -> impl Iterator<Item = (usize, u64, Version)> {
        let now = net.instant(net.now_us);
        let lent = self.nodes.iter().enumerate().filter(|(_, node)| node.is_lent);
        lent.flat_map(move |(number, node)| {
            let entries = node.ledger().entries();
            let complete = entries.filter(move |(offset, entry)| {
                entry.state == EntryState::Complete && !node.is_promised(*offset, now)
            });
            complete.map(move |(offset, entry)| (number, offset, entry.grant))
        })
    }

    /// The bytes of a complete entry are lost. Returns its key and version.
    pub(crate) fn lose(
        &mut self,
        (node, offset, grant): (usize, u64, Version),
        net: &mut Net,
    ) -> (usize, Version) {
        let (lost, stop) = self.nodes[node].lose(offset, grant);
        self.stop(stop, net);
        lost
    }

    /// A segment that lost entries of which the master may not know.
    pub(crate) fn first_loss(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.is_lent && !node.losses().is_empty())
    }

    /// The master knows what a segment lost before this number.
    pub(crate) fn forget_losses(&mut self, id: SegmentId, before: u64) {
        let node = self.nodes.iter_mut().find(|node| node.segment() == id);
        node.into_iter().for_each(|node| node.forget_losses_before(before));
    }

    /// Promises to keep an entry for a while.
    pub(crate) fn promise(&mut self, range: &RangeRead, net: &Net) -> Result<(), ErrorCode> {
        let node = *self.names.find(range.segment)?;
        self.nodes[node].promise(range, net.instant(net.now_us))
    }

    /// Drops everything in a segment, and gives it another id.
    pub(crate) fn start_empty(&mut self, id: SegmentId, new_id: SegmentId, net: &mut Net) {
        let Self { names, nodes, .. } = self;
        let stop = names.start_empty(id, new_id, |node| nodes[*node].start_empty(new_id));
        self.stop(stop.expect("it has that id"), net);
    }

    /// Stops serving the segment in memory. The same memory is lent again later, under a new id, so that no earlier
    /// writer can change it.
    pub(crate) fn withdraw(&mut self, net: &mut Net, run_state: &mut RunState) {
        run_state.promises.note_gone(self.memory());
        let id = self.memory().segment();
        self.names.take_back(id);
        let stop = self.memory().start_empty(SegmentId(id.0 + 1));
        self.lend(0);
        self.stop(stop, net);
    }

    fn stop(&self, writers: Vec<Writer>, net: &mut Net) {
        for writer in writers {
            let Writer::Peer(conn) = writer else { continue };
            let is_in_place = self.services.get(&conn).is_some_and(Service::is_in_place);
            if is_in_place {
                // The connection stays open: the peer may still be writing.
                net.tell_to_stop(conn);
            } else {
                let delay_us = net.moment_us();
                net.after(delay_us, Event::Serve { process: self.process, conn });
            }
        }
    }

    /// The grant under which this version was written, if the version lies in the range.
    pub(crate) fn find(&self, range: &RangeRead) -> Result<Version, ErrorCode> {
        let node = *self.names.find(range.segment)?;
        self.nodes[node].find(range)
    }

    pub(crate) fn still_holds(&self, range: &RangeRead, grant: Version) -> bool {
        self.segment(range.segment).is_some_and(|node| node.still_holds(range, grant))
    }

    /// The number of the slot through which another process of this host reads a range; `None` if it must ask the
    /// node.
    pub(crate) fn find_slot(&self, range: &RangeRead) -> Option<Result<u64, Stale>> {
        self.segment(range.segment)?.slots.find(range)
    }

    pub(crate) fn slot_still_holds(&self, range: &RangeRead, number: u64) -> bool {
        let node = self.segment(range.segment);
        node.is_some_and(|node| node.slots.still_holds(range.offset, number))
    }
}
