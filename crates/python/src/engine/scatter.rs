//! Transfers of fragments of several ranges, and the tickets that tell how they end.

use std::time::Duration;

use mooncake_engine::{BatchStatus, Opcode, Piece, ScatterRange, Ticket};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::TransferEngine;
use crate::argument::argument;
use crate::replicate_config::member;
use crate::rows::Rows;

/// A scatter transfer in the background. Unlike a batch number, it tells its state as often as it is asked.
#[pyclass(frozen, weakref, module = "mooncake.engine")]
pub(crate) struct ScatterTransferTicket(Ticket);

const STATUS: &str = "ScatterTransferCompletionStatus";

fn status_of(py: Python<'_>, status: BatchStatus) -> PyResult<Bound<'_, PyAny>> {
    let number = match status {
        BatchStatus::Done => 0,
        BatchStatus::Failed | BatchStatus::TimedOut => 1,
        BatchStatus::Running => 2,
    };
    member(py, STATUS, number)
}

#[pymethods]
impl ScatterTransferTicket {
    /// The state of the transfer, a `ScatterTransferCompletionStatus`.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        status_of(py, self.0.status())
    }

    /// Whether the transfer has ended: then it touches no memory any more.
    #[getter]
    fn drained(&self) -> bool {
        self.0.status() != BatchStatus::Running
    }

    /// Waits until the transfer has ended, at most this many milliseconds. Returns its state.
    #[pyo3(text_signature = "($self, timeout_ms, /)")]
    fn drain<'py>(&self, timeout_ms: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let limit = Duration::from_millis(argument("drain", "timeout_ms").number(timeout_ms)?);
        let py = timeout_ms.py();
        status_of(py, py.detach(|| self.0.wait(limit)))
    }

    fn __repr__(&self) -> String {
        format!("<ScatterTransferTicket {:?}>", self.0.status())
    }
}

/// The arguments of a scatter transfer.
struct ScatterArguments<'a, 'py> {
    function: &'static str,
    endpoint: &'a Bound<'py, PyAny>,
    /// Local base addresses and capacities, remote base addresses and capacities.
    ranges: [&'a Bound<'py, PyAny>; 4],
    /// Local offsets, remote offsets, lengths.
    fragments: [&'a Bound<'py, PyAny>; 3],
}

impl ScatterArguments<'_, '_> {
    fn pieces(&self) -> PyResult<Vec<Piece>> {
        let name = |name| argument(self.function, name);
        let [local, local_len, remote, remote_len] = self.ranges;
        let ranges = [
            name("local_base_addresses").numbers(local)?,
            name("local_capacities").numbers(local_len)?,
            name("remote_base_addresses").numbers(remote)?,
            name("remote_capacities").numbers(remote_len)?,
        ];
        let [local_offsets, remote_offsets, lens] = self.fragments;
        let fragments = [
            name("local_offsets").number_lists(local_offsets)?,
            name("remote_offsets").number_lists(remote_offsets)?,
            name("lengths").number_lists(lens)?,
        ];
        let refuse =
            |reason: String| PyValueError::new_err(format!("{}(): {reason}", self.function));
        let lens: Vec<usize> =
            ranges.iter().map(Vec::len).chain(fragments.iter().map(Rows::len)).collect();
        if lens.iter().any(|&len| len != lens[0]) {
            let lens: Vec<String> = lens.iter().map(usize::to_string).collect();
            return Err(refuse(format!(
                "the lists of ranges differ in length: {}",
                lens.join(", ")
            )));
        }
        let range = |at: usize| ScatterRange {
            local: (ranges[0][at], ranges[1][at]),
            remote: (ranges[2][at], ranges[3][at]),
            local_offsets: fragments[0].row(at),
            remote_offsets: fragments[1].row(at),
            lens: fragments[2].row(at),
        };
        let ranges: Vec<ScatterRange<'_>> = (0..lens[0]).map(range).collect();
        ScatterRange::pieces(&ranges).map_err(|error| refuse(error.to_string()))
    }
}

impl TransferEngine {
    /// Starts a transfer. One that cannot begin has failed.
    fn start(&self, opcode: Opcode, arguments: &ScatterArguments) -> PyResult<Ticket> {
        let function = arguments.function;
        let peer = argument(function, "endpoint").text(arguments.endpoint)?;
        let pieces = arguments.pieces()?;
        let Some(engine) = self.engine_for(function) else { return Ok(Ticket::failed()) };
        let started = arguments.endpoint.py().detach(|| engine.start(peer, opcode, &pieces));
        Ok(started.unwrap_or_else(|error| {
            tracing::error!("{function}: {peer}: {error}");
            Ticket::failed()
        }))
    }

    fn start_and_wait(
        &self,
        opcode: Opcode,
        arguments: &ScatterArguments,
    ) -> PyResult<ScatterTransferTicket> {
        let ticket = self.start(opcode, arguments)?;
        arguments.endpoint.py().detach(|| ticket.wait(Duration::MAX));
        Ok(ScatterTransferTicket(ticket))
    }
}

#[pymethods]
impl TransferEngine {
    /// Starts to write fragments of several ranges in the background. Range `i` is `local_capacities[i]` bytes at
    /// `local_base_addresses[i]` here, and `remote_capacities[i]` bytes at `remote_base_addresses[i]` of the peer named
    /// `endpoint`. Its fragment `j` has `lengths[i][j]` bytes: those at `local_offsets[i][j]` here go to
    /// `remote_offsets[i][j]` there.
    ///
    /// Returns a `ScatterTransferTicket`. Its status is FAILED_DRAINED if the peer cannot be found, the local memory is
    /// not registered, or too many transfers are under way; the log says which. Raises ValueError if lists differ in
    /// length, or a fragment does not lie within its range.
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn submit_scatter_write(
        &self,
        endpoint: &Bound<'_, PyAny>,
        local_base_addresses: &Bound<'_, PyAny>,
        local_capacities: &Bound<'_, PyAny>,
        remote_base_addresses: &Bound<'_, PyAny>,
        remote_capacities: &Bound<'_, PyAny>,
        local_offsets: &Bound<'_, PyAny>,
        remote_offsets: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
    ) -> PyResult<ScatterTransferTicket> {
        let arguments = ScatterArguments {
            function: "submit_scatter_write",
            endpoint,
            ranges: [
                local_base_addresses,
                local_capacities,
                remote_base_addresses,
                remote_capacities,
            ],
            fragments: [local_offsets, remote_offsets, lengths],
        };
        self.start(Opcode::Write, &arguments).map(ScatterTransferTicket)
    }

    /// Starts to read fragments of several ranges of the peer, as `submit_scatter_write` writes them.
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn submit_scatter_read(
        &self,
        endpoint: &Bound<'_, PyAny>,
        local_base_addresses: &Bound<'_, PyAny>,
        local_capacities: &Bound<'_, PyAny>,
        remote_base_addresses: &Bound<'_, PyAny>,
        remote_capacities: &Bound<'_, PyAny>,
        local_offsets: &Bound<'_, PyAny>,
        remote_offsets: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
    ) -> PyResult<ScatterTransferTicket> {
        let arguments = ScatterArguments {
            function: "submit_scatter_read",
            endpoint,
            ranges: [
                local_base_addresses,
                local_capacities,
                remote_base_addresses,
                remote_capacities,
            ],
            fragments: [local_offsets, remote_offsets, lengths],
        };
        self.start(Opcode::Read, &arguments).map(ScatterTransferTicket)
    }

    /// As `submit_scatter_write`, and waits until the transfer has ended.
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn scatter_transfer_sync_write_with_ticket(
        &self,
        endpoint: &Bound<'_, PyAny>,
        local_base_addresses: &Bound<'_, PyAny>,
        local_capacities: &Bound<'_, PyAny>,
        remote_base_addresses: &Bound<'_, PyAny>,
        remote_capacities: &Bound<'_, PyAny>,
        local_offsets: &Bound<'_, PyAny>,
        remote_offsets: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
    ) -> PyResult<ScatterTransferTicket> {
        let arguments = ScatterArguments {
            function: "scatter_transfer_sync_write_with_ticket",
            endpoint,
            ranges: [
                local_base_addresses,
                local_capacities,
                remote_base_addresses,
                remote_capacities,
            ],
            fragments: [local_offsets, remote_offsets, lengths],
        };
        self.start_and_wait(Opcode::Write, &arguments)
    }

    /// As `submit_scatter_read`, and waits until the transfer has ended.
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn scatter_transfer_sync_read_with_ticket(
        &self,
        endpoint: &Bound<'_, PyAny>,
        local_base_addresses: &Bound<'_, PyAny>,
        local_capacities: &Bound<'_, PyAny>,
        remote_base_addresses: &Bound<'_, PyAny>,
        remote_capacities: &Bound<'_, PyAny>,
        local_offsets: &Bound<'_, PyAny>,
        remote_offsets: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
    ) -> PyResult<ScatterTransferTicket> {
        let arguments = ScatterArguments {
            function: "scatter_transfer_sync_read_with_ticket",
            endpoint,
            ranges: [
                local_base_addresses,
                local_capacities,
                remote_base_addresses,
                remote_capacities,
            ],
            fragments: [local_offsets, remote_offsets, lengths],
        };
        self.start_and_wait(Opcode::Read, &arguments)
    }
}
