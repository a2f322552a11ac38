//! The transfers whose addresses, lengths and page numbers lie in buffers of 64-bit integers.

use mooncake_engine::{Field, MAX_PIECES, Opcode, Pages};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::TransferEngine;
use super::array::{row_of_integers, rows_of_integers};
use super::code::FAILED;
use super::transfer::{Hints, TransferArguments, check_hints};
use crate::argument::argument;

/// The arguments of a transfer of pages.
struct PagesArguments<'a, 'py> {
    function: &'static str,
    peer: &'a Bound<'py, PyAny>,
    /// Source pages, destination pages and fields.
    arrays: [&'a Bound<'py, PyAny>; 3],
    max_batch_size: Option<&'a Bound<'py, PyAny>>,
    hints: Hints<'a, 'py>,
}

impl TransferEngine {
    fn run_pages(&self, opcode: Opcode, arguments: &PagesArguments) -> PyResult<i32> {
        let PagesArguments { function, peer, arrays: [src, dst, fields], .. } = *arguments;
        let py = peer.py();
        let peer = argument(function, "target_hostname").text(peer)?;
        check_hints(function, arguments.hints)?;
        let local = row_of_integers(argument(function, "src_pages"), src)?;
        let remote = row_of_integers(argument(function, "dst_pages"), dst)?;
        let fields = rows_of_integers(argument(function, "fields"), fields)?;
        let field = |[local, local_stride, remote, remote_stride, len]: [u64; 5]| Field {
            local,
            local_stride,
            remote,
            remote_stride,
            len,
        };
        let pages = Pages::new(local, remote, fields.into_iter().map(field).collect());
        let pages =
            pages.map_err(|error| PyValueError::new_err(format!("{function}(): {error}")))?;
        let size = match arguments.max_batch_size {
            Some(size) => argument(function, "max_batch_size").number(size)?,
            None => 0,
        };
        let size = usize::try_from(size).unwrap_or(MAX_PIECES);
        let Some(engine) = self.engine_for(function) else { return Ok(FAILED) };
        match py.detach(|| engine.transfer_pages(peer, opcode, &pages, size)) {
            Ok(()) => Ok(0),
            Err(error) => {
                tracing::error!("{function}: {peer}: {error}");
                Ok(FAILED)
            }
        }
    }
}

#[pymethods]
impl TransferEngine {
    /// As `batch_transfer_sync_write`, with one-dimensional buffers of 64-bit integers instead of lists, like NumPy
    /// arrays.
    ///
    /// Returns as there. Raises ValueError if the buffers differ in length, have other items, or hold a negative
    /// number.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', \
            nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_write_arrays(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_transfer_sync_write_arrays";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_arrays(NAME, target_hostname, many, hints)?;
        Ok(self.run(buffers.py(), Opcode::Write, order, None))
    }

    /// As `batch_transfer_sync_read`, with buffers as `batch_transfer_sync_write_arrays` takes them.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', \
            nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_read_arrays(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_transfer_sync_read_arrays";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_arrays(NAME, target_hostname, many, hints)?;
        Ok(self.run(buffers.py(), Opcode::Read, order, None))
    }

    /// Starts `batch_transfer_sync_write_arrays` in the background. Returns as `transfer_submit_write`, and raises as
    /// `batch_transfer_sync_write_arrays`.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', \
            nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_async_write_arrays(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        const NAME: &str = "batch_transfer_async_write_arrays";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_arrays(NAME, target_hostname, many, hints)?;
        Ok(self.submit(buffers.py(), Opcode::Write, order))
    }

    /// Starts `batch_transfer_sync_read_arrays` in the background. Returns as `transfer_submit_write`, and raises as
    /// `batch_transfer_sync_write_arrays`.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', \
            nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_async_read_arrays(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        const NAME: &str = "batch_transfer_async_read_arrays";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_arrays(NAME, target_hostname, many, hints)?;
        Ok(self.submit(buffers.py(), Opcode::Read, order))
    }

    /// Writes each field of each page. Page `src_pages[i]` lies in this process, and page `dst_pages[i]` in the peer:
    /// buffers of 64-bit integers. A row of `fields`, with five integers, describes a field: its address in page 0 and
    /// the distance between pages, here; the same two in the peer; its length.
    ///
    /// The writes go field by field, in batches of at most `max_batch_size`, one after the other; 0 lets the engine
    /// choose.
    ///
    /// Returns 0 when all bytes are in place. Otherwise -1; the first failure ends the call, and some pages may have
    /// been written. Raises ValueError if the lists of pages differ in length, a buffer has another shape or other
    /// items, a number is negative, a field has no bytes, or a page runs past the end of memory.
    #[pyo3(signature = (
        target_hostname, src_pages, dst_pages, fields, max_batch_size=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, src_pages, dst_pages, fields, max_batch_size=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_write_pages(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        src_pages: &Bound<'_, PyAny>,
        dst_pages: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyAny>,
        max_batch_size: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let arguments = PagesArguments {
            function: "batch_transfer_sync_write_pages",
            peer: target_hostname,
            arrays: [src_pages, dst_pages, fields],
            max_batch_size,
            hints: [transport_hint, nic_hint],
        };
        self.run_pages(Opcode::Write, &arguments)
    }

    /// Reads each field of each page, as `batch_transfer_sync_write_pages`, with the same roles: as in the C++ package,
    /// `src_pages` are those of this process, to which this writes, and `dst_pages` those of the peer.
    #[pyo3(signature = (
        target_hostname, src_pages, dst_pages, fields, max_batch_size=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, src_pages, dst_pages, fields, max_batch_size=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_read_pages(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        src_pages: &Bound<'_, PyAny>,
        dst_pages: &Bound<'_, PyAny>,
        fields: &Bound<'_, PyAny>,
        max_batch_size: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let arguments = PagesArguments {
            function: "batch_transfer_sync_read_pages",
            peer: target_hostname,
            arrays: [src_pages, dst_pages, fields],
            max_batch_size,
            hints: [transport_hint, nic_hint],
        };
        self.run_pages(Opcode::Read, &arguments)
    }
}
