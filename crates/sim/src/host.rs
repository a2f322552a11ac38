//! The half of a process that lends memory.

use std::collections::BTreeMap;

use mooncake_node::{Admission, LentSegments};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use crate::desk::Desk;
use crate::net::{ConnId, Event, Net, Process};
use crate::node::{Node, Writer};
use crate::published::Stale;
use crate::service::Service;

/// What a process lends, if anything, and whom it serves.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) is_alive: bool,
    /// What the segment is called, and which epoch the process obeys.
    names: LentSegments<()>,
    pub(crate) node: Option<Node>,
    pub(crate) services: BTreeMap<ConnId, Service>,
}

impl Host {
    pub(crate) fn new(process: Process, node: Option<Node>) -> Self {
        let (names, services) = (LentSegments::default(), BTreeMap::new());
        let mut host = Self { process, is_alive: true, names, node, services };
        host.lend();
        host
    }

    /// The segment is served from now on, under the id that it has.
    fn lend(&mut self) {
        if let Some(node) = &self.node {
            self.names.lend(node.segment(), ());
            self.see_epoch(node.epoch());
        }
    }

    /// The highest epoch that the process has seen.
    pub(crate) fn epoch(&self) -> Epoch {
        self.names.epoch()
    }

    pub(crate) fn see_epoch(&mut self, epoch: Epoch) {
        let Self { names, node, .. } = self;
        names.obey(epoch, |(), epoch| node.iter_mut().for_each(|node| node.obey(epoch)));
    }

    /// The segment, of a process in which somebody writes.
    pub(crate) fn lent(&mut self) -> &mut Node {
        self.node.as_mut().expect("a process that lends nothing has no writers")
    }

    /// The segment, if it has this id.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<&Node> {
        self.names.find(id).ok().and(self.node.as_ref())
    }

    /// Takes a range for a writer, and has older ones told to stop.
    pub(crate) fn begin_write(
        &mut self,
        write: (Epoch, &RangeWrite<'static>),
        (writer, patience_us): (Writer, u64),
        net: &mut Net,
        desk: &mut Desk,
    ) -> Result<u64, ErrorCode> {
        self.names.find(write.1.segment)?;
        let times = (net.instant(net.now_us), net.instant(net.now_us + patience_us));
        let (ticket, stop) = self.lent().begin(write, writer, times, desk)?;
        self.stop(stop, net);
        Ok(ticket)
    }

    /// Whether a writer may change bytes. Its ticket is over if not.
    pub(crate) fn admit(&mut self, ticket: u64, net: &Net) -> Admission {
        self.lent().admit(ticket, net.instant(net.now_us))
    }

    /// Has an entry dropped.
    pub(crate) fn drop_range(&mut self, range: &RangeDrop, net: &mut Net) -> Result<(), ErrorCode> {
        self.names.find_ever(range.segment)?;
        let stop = self.lent().drop_range(range)?;
        self.stop(stop, net);
        Ok(())
    }

    /// Drops all that is lent, under another id.
    pub(crate) fn start_empty(&mut self, segment: SegmentId, net: &mut Net) {
        let Self { names, node, .. } = self;
        let node = node.as_mut().expect("it is lent");
        let stop = names.start_empty(node.segment(), segment, |()| node.start_empty(segment));
        self.stop(stop.expect("it has that id"), net);
    }

    /// Serves what it lends no longer. What it lends next lies in the same memory, under an id of its own, and nobody who
    /// was at work here may harm that.
    pub(crate) fn withdraw(&mut self, net: &mut Net) {
        let id = self.lent().segment();
        self.names.take_back(id);
        let stop = self.lent().start_empty(SegmentId(id.0 + 1));
        self.lend();
        self.stop(stop, net);
    }

    fn stop(&self, writers: Vec<Writer>, net: &mut Net) {
        for writer in writers {
            let Writer::Peer(conn) = writer else { continue };
            let is_in_place = self.services.get(&conn).is_some_and(Service::is_in_place);
            if is_in_place {
                // It goes on listening: the peer may still be writing.
                net.tell_to_stop(conn);
            } else {
                let delay_us = net.moment_us();
                net.after(delay_us, Event::Serve { process: self.process, conn });
            }
        }
    }

    /// Whether that version lies here; gives the grant that it was written under.
    pub(crate) fn find(&self, range: &RangeRead) -> Result<Version, ErrorCode> {
        self.names.find_to_read(range.segment)?;
        self.node.as_ref().ok_or(ErrorCode::ObjectNotFound)?.find(range)
    }

    pub(crate) fn still_holds(&self, range: &RangeRead, grant: Version) -> bool {
        self.segment(range.segment).is_some_and(|node| node.still_holds(range, grant))
    }

    /// The number of the slot by which another process of the machine reads a range; `None` if it has to ask.
    pub(crate) fn find_slot(&self, range: &RangeRead) -> Option<Result<u64, Stale>> {
        self.segment(range.segment)?.slots.find(range)
    }

    pub(crate) fn slot_still_holds(&self, range: &RangeRead, number: u64) -> bool {
        let node = self.segment(range.segment);
        node.is_some_and(|node| node.slots.still_holds(range.offset, number))
    }
}
