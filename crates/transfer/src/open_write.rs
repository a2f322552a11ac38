use std::sync::Arc;

use mooncake_memory::{HeldSlice, RawSlice, Region};
use mooncake_types::{Epoch, ErrorCode, RangeWrite};

use crate::{Interrupt, SegmentHost, WriteTicket};

/// A write that is abandoned when dropped, unless it was completed.
pub(crate) struct OpenWrite<'a> {
    host: &'a dyn SegmentHost,
    /// `None` once the write is completed or abandoned.
    ticket: Option<WriteTicket>,
}

impl<'a> OpenWrite<'a> {
    /// Begins to write a range.
    ///
    /// # Errors
    /// As [`SegmentHost::begin_write`], and [`ErrorCode::InternalError`] if the host gives other memory than the
    /// range.
    pub(crate) fn begin(
        host: &'a dyn SegmentHost,
        epoch: Epoch,
        range: &RangeWrite<'_>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Result<Self, ErrorCode> {
        let ticket = host.begin_write(epoch, range, interrupt)?;
        let is_whole = ticket.memory.len() as u64 == range.len;
        let open = Self { host, ticket: Some(ticket) };
        if is_whole { Ok(open) } else { Err(ErrorCode::InternalError) }
    }

    fn ticket(&self) -> &WriteTicket {
        self.ticket.as_ref().expect("a write is open until it is completed")
    }

    /// Where the bytes go, with what keeps it mapped.
    pub(crate) fn held(&self) -> &HeldSlice {
        &self.ticket().memory
    }

    /// Where the bytes go.
    pub(crate) fn memory(&self) -> RawSlice<'_> {
        self.ticket().memory.raw()
    }

    /// The region that they lie in.
    pub(crate) fn region(&self) -> &Region {
        self.ticket().memory.region()
    }

    /// Completes the write; see [`SegmentHost::complete_write`].
    ///
    /// # Errors
    /// Those of [`SegmentHost::complete_write`].
    pub(crate) fn complete(mut self, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let ticket = self.ticket.take().expect("a write is open until it is completed");
        self.host.complete_write(ticket, checksums)
    }
}

impl Drop for OpenWrite<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.host.abandon_write(ticket);
        }
    }
}
