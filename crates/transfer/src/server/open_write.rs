use mooncake_types::ErrorCode;

use crate::{SegmentHost, WriteTicket};

/// A write that is abandoned unless it is completed, whichever way its connection ends.
pub(super) struct OpenWrite<'a> {
    host: &'a dyn SegmentHost,
    ticket: Option<WriteTicket>,
}

impl<'a> OpenWrite<'a> {
    pub(super) fn new(host: &'a dyn SegmentHost, ticket: WriteTicket) -> Self {
        Self { host, ticket: Some(ticket) }
    }

    pub(super) fn complete(mut self, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        match self.ticket.take() {
            Some(ticket) => self.host.complete_write(ticket, checksums),
            None => unreachable!("a write is completed once, and abandoned only on drop"),
        }
    }
}

impl Drop for OpenWrite<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.host.abandon_write(ticket);
        }
    }
}
