//! The transfers in the order of a CUDA stream.

use mooncake_engine::Opcode;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::TransferEngine;
use super::transfer::TransferArguments;
use crate::argument::argument;

impl TransferEngine {
    fn put_on_stream(
        &self,
        py: Python<'_>,
        opcode: Opcode,
        order: TransferArguments,
        stream_ptr: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let TransferArguments { function, peer, pieces } = order;
        let refused = |reason: &dyn std::fmt::Display| {
            PyRuntimeError::new_err(format!("{function}(): {peer}: {reason}"))
        };
        let stream = match stream_ptr {
            Some(stream) => argument(function, "stream_ptr").number(stream)?,
            None => 0,
        };
        let stream = usize::try_from(stream).map_err(|error| refused(&error))?;
        let uneven = "buffers, peer_buffer_addresses and lengths differ in length";
        let pieces = pieces.ok_or_else(|| refused(&uneven))?;
        let engine =
            self.engine_for(function).ok_or_else(|| refused(&"the engine is not initialized"))?;
        py.detach(|| engine.transfer_on_stream(peer, opcode, &pieces, stream))
            .map_err(|error| refused(&error))
    }
}

#[pymethods]
impl TransferEngine {
    /// Writes as `transfer_sync_write`, in the order of a CUDA stream: once the stream has done what was put on it
    /// before. What is put on it later waits until the bytes are in place. `stream_ptr` is the `cudaStream_t` as a
    /// number, like `torch.cuda.Stream.cuda_stream`; 0 is the default stream of the calling thread's device.
    ///
    /// Returns None at once. Raises RuntimeError if the peer cannot be found, the local memory is not registered, the
    /// driver refuses the stream, the process has no CUDA driver, or 256 transfers wait for streams already.
    ///
    /// A transfer that fails later ends the process, after it has logged why, as in the C++ package: the stream would go
    /// on with wrong bytes.
    #[pyo3(signature = (
        target_hostname, buffer, peer_buffer_address, length, stream_ptr=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, stream_ptr=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_write_on_cuda(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        stream_ptr: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        const NAME: &str = "transfer_write_on_cuda";
        let (one, hints) = ([buffer, peer_buffer_address, length], [transport_hint, nic_hint]);
        let order = TransferArguments::of_one(NAME, target_hostname, one, hints)?;
        self.put_on_stream(buffer.py(), Opcode::Write, order, stream_ptr)
    }

    /// Reads as `transfer_sync_read`, in the order of a CUDA stream, as `transfer_write_on_cuda` writes.
    #[pyo3(signature = (
        target_hostname, buffer, peer_buffer_address, length, stream_ptr=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, stream_ptr=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_read_on_cuda(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        stream_ptr: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        const NAME: &str = "transfer_read_on_cuda";
        let (one, hints) = ([buffer, peer_buffer_address, length], [transport_hint, nic_hint]);
        let order = TransferArguments::of_one(NAME, target_hostname, one, hints)?;
        self.put_on_stream(buffer.py(), Opcode::Read, order, stream_ptr)
    }

    /// Writes several ranges, as `batch_transfer_sync_write`, in the order of a CUDA stream, as
    /// `transfer_write_on_cuda`. Raises RuntimeError also if the lists differ in length.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, stream_ptr=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, stream_ptr=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_write_on_cuda(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        stream_ptr: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        const NAME: &str = "batch_transfer_write_on_cuda";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_many(NAME, target_hostname, many, hints)?;
        self.put_on_stream(buffers.py(), Opcode::Write, order, stream_ptr)
    }

    /// Reads several ranges, as `batch_transfer_sync_read`, in the order of a CUDA stream, as
    /// `transfer_write_on_cuda` writes. Raises RuntimeError also if the lists differ in length.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, stream_ptr=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, stream_ptr=0, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_read_on_cuda(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        stream_ptr: Option<&Bound<'_, PyAny>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        const NAME: &str = "batch_transfer_read_on_cuda";
        let (many, hints) = ([buffers, peer_buffer_addresses, lengths], [transport_hint, nic_hint]);
        let order = TransferArguments::of_many(NAME, target_hostname, many, hints)?;
        self.put_on_stream(buffers.py(), Opcode::Read, order, stream_ptr)
    }
}
