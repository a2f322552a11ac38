//! The methods that start transfers in the background and report how they end.

use mooncake_engine::{BatchStatus, Opcode};
use pyo3::prelude::*;

use super::TransferEngine;
use super::code::FAILED;
use super::transfer::{TransferArguments, opcode};
use crate::argument::argument;

/// Returned in the place of a batch number: nothing was submitted.
const NONE: u64 = 0;

const DONE: i32 = 1;
const RUNNING: i32 = 0;
const TIMED_OUT: i32 = -2;

impl TransferEngine {
    pub(super) fn submit(&self, py: Python<'_>, opcode: Opcode, order: TransferArguments) -> u64 {
        let function = order.function;
        let Some(engine) = self.engine_for(function) else { return NONE };
        let Some(pieces) = order.pieces else { return NONE };
        match py.detach(|| engine.submit(order.peer, opcode, &pieces)) {
            Ok(number) => number,
            Err(error) => {
                tracing::error!("{function}: {}: {error}", order.peer);
                NONE
            }
        }
    }
}

#[pymethods]
impl TransferEngine {
    /// Starts `transfer_sync_write` in the background. Both memory ranges must stay registered until the transfer has
    /// ended.
    ///
    /// Returns a batch number for `transfer_check_status`. Returns 0 if the peer cannot be found, the local memory is
    /// not registered, or 65536 transfers run or have ended without a query of their status. The log says which.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_submit_write(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let one = [buffer, peer_buffer_address, length];
        let order = TransferArguments::of_one(
            "transfer_submit_write",
            target_hostname,
            one,
            [transport_hint, nic_hint],
        )?;
        Ok(self.submit(buffer.py(), Opcode::Write, order))
    }

    /// Starts `batch_transfer_sync_write` in the background. Returns as `transfer_submit_write`; 0 also if the lists
    /// differ in length.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_async_write(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        const NAME: &str = "batch_transfer_async_write";
        let many = [buffers, peer_buffer_addresses, lengths];
        let order =
            TransferArguments::of_many(NAME, target_hostname, many, [transport_hint, nic_hint])?;
        Ok(self.submit(buffers.py(), Opcode::Write, order))
    }

    /// Starts `batch_transfer_sync_read` in the background. Returns as `transfer_submit_write`; 0 also if the lists
    /// differ in length.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_async_read(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        const NAME: &str = "batch_transfer_async_read";
        let many = [buffers, peer_buffer_addresses, lengths];
        let order =
            TransferArguments::of_many(NAME, target_hostname, many, [transport_hint, nic_hint])?;
        Ok(self.submit(buffers.py(), Opcode::Read, order))
    }

    /// Starts a read or a write of several ranges in the background; `opcode` is a `TransferOpcode`. Returns as
    /// `transfer_submit_write`; 0 also if the lists differ in length.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, opcode, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, opcode, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_async(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        opcode: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        const NAME: &str = "batch_transfer_async";
        let many = [buffers, peer_buffer_addresses, lengths];
        let order =
            TransferArguments::of_many(NAME, target_hostname, many, [transport_hint, nic_hint])?;
        Ok(self.submit(buffers.py(), self::opcode(NAME, opcode)?, order))
    }

    /// The status of the background transfer `batch_id`. The engine forgets the number once this has returned a final
    /// status.
    ///
    /// Returns 0 while it runs. Final statuses: 1 if all bytes are in place, -1 if it failed or the number is unknown,
    /// -2 if it timed out. After a final status the transfer touches no memory.
    fn transfer_check_status(&self, batch_id: &Bound<'_, PyAny>) -> PyResult<i32> {
        const NAME: &str = "transfer_check_status";
        let number = argument(NAME, "batch_id").number(batch_id)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(match engine.status(number) {
            BatchStatus::Running => RUNNING,
            BatchStatus::Done => DONE,
            BatchStatus::Failed => FAILED,
            BatchStatus::TimedOut => TIMED_OUT,
        })
    }

    /// Blocks until all these background transfers have ended, and forgets their numbers.
    ///
    /// Returns 0 if all of them moved all their bytes, otherwise -1.
    fn get_batch_transfer_status(
        &self,
        py: Python<'_>,
        batch_ids: &Bound<'_, PyAny>,
    ) -> PyResult<i32> {
        const NAME: &str = "get_batch_transfer_status";
        let numbers = argument(NAME, "batch_ids").numbers(batch_ids)?;
        let Some(engine) = self.engine_for(NAME) else { return Ok(FAILED) };
        Ok(if py.detach(|| engine.wait(&numbers)) { 0 } else { FAILED })
    }
}
