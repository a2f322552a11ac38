//! The half of a process that lends memory.

use std::collections::BTreeMap;

use mooncake_types::{Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, SegmentId, Version};

use crate::desk::Desk;
use crate::net::{ConnId, Event, Net, Process};
use crate::node::{Node, Writer};
use crate::service::Service;

/// What a process lends, if anything, and whom it serves.
pub(crate) struct Host {
    pub(crate) process: Process,
    pub(crate) is_alive: bool,
    /// The highest epoch that the process has seen.
    pub(crate) epoch: Epoch,
    pub(crate) node: Option<Node>,
    pub(crate) services: BTreeMap<ConnId, Service>,
}

impl Host {
    pub(crate) fn new(process: Process, node: Option<Node>) -> Self {
        let services = BTreeMap::new();
        Self { process, is_alive: true, epoch: Epoch(0), node, services }
    }

    pub(crate) fn see_epoch(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
    }

    /// The segment, of a process in which somebody writes.
    pub(crate) fn lent(&mut self) -> &mut Node {
        self.node.as_mut().expect("a process that lends nothing has no writers")
    }

    /// Takes a range for a writer, and has older ones told to stop.
    pub(crate) fn begin_write(
        &mut self,
        epoch: Epoch,
        range: &RangeWrite<'static>,
        writer: Writer,
        net: &mut Net,
        desk: &mut Desk,
    ) -> Result<u64, ErrorCode> {
        let node = self.node.as_mut().ok_or(ErrorCode::SegmentNotFound)?;
        let (ticket, stop) = node.begin(self.epoch, epoch, range, writer, desk)?;
        self.stop(stop, net);
        Ok(ticket)
    }

    /// Has an entry dropped.
    pub(crate) fn drop_range(&mut self, range: &RangeDrop, net: &mut Net) -> Result<(), ErrorCode> {
        let node = self.node.as_mut().ok_or(ErrorCode::SegmentNotFound)?;
        let stop = node.drop_range(range, self.epoch)?;
        self.stop(stop, net);
        Ok(())
    }

    /// Drops all that is lent, under another id.
    pub(crate) fn start_empty(&mut self, segment: SegmentId, net: &mut Net) {
        let stop = self.lent().start_empty(segment);
        self.stop(stop, net);
    }

    /// Serves what it lends no longer.
    pub(crate) fn withdraw(&mut self, net: &mut Net) {
        let stop = self.lent().withdraw();
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

    pub(crate) fn find(&self, range: &RangeRead) -> Result<Version, ErrorCode> {
        self.node.as_ref().ok_or(ErrorCode::ObjectNotFound)?.find(range)
    }
}
