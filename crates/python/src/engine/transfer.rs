//! The methods that move bytes and wait for them.

use mooncake_engine::{Note, Opcode, Piece};
use pyo3::prelude::*;

use super::array::row_of_integers;
use super::code::FAILED;
use super::{TransferEngine, TransferNotify};
use crate::argument::argument;

/// The arguments of a transfer.
pub(super) struct TransferArguments<'a> {
    pub(super) function: &'static str,
    pub(super) peer: &'a str,
    /// `None` if the lists differ in length.
    pub(super) pieces: Option<Vec<Piece>>,
}

/// The arguments of one transfer: local address, peer address, length; or three lists of these.
type TransferColumns<'a, 'py> = [&'a Bound<'py, PyAny>; 3];

impl<'a> TransferArguments<'a> {
    pub(super) fn of_one(
        function: &'static str,
        peer: &'a Bound<'_, PyAny>,
        [buffer, peer_buffer_address, length]: TransferColumns<'_, '_>,
        hints: Hints<'_, '_>,
    ) -> PyResult<Self> {
        let local = argument(function, "buffer").number(buffer)?;
        let remote = argument(function, "peer_buffer_address").number(peer_buffer_address)?;
        let len = argument(function, "length").number(length)?;
        let pieces = Some(vec![Piece { local, remote, len }]);
        Self::new(function, peer, pieces, hints)
    }

    pub(super) fn of_many(
        function: &'static str,
        peer: &'a Bound<'_, PyAny>,
        [buffers, peer_buffer_addresses, lengths]: TransferColumns<'_, '_>,
        hints: Hints<'_, '_>,
    ) -> PyResult<Self> {
        let locals = argument(function, "buffers").numbers(buffers)?;
        let remotes = argument(function, "peer_buffer_addresses").numbers(peer_buffer_addresses)?;
        let lens = argument(function, "lengths").numbers(lengths)?;
        let is_even = locals.len() == remotes.len() && locals.len() == lens.len();
        if !is_even {
            let (locals, remotes, lens) = (locals.len(), remotes.len(), lens.len());
            tracing::error!("{function}: {locals} buffers, {remotes} addresses and {lens} lengths");
        }
        let pieces = rows(locals, remotes, lens);
        Self::new(function, peer, is_even.then_some(pieces), hints)
    }

    /// As [`TransferArguments::of_many`], with buffers of 64-bit integers.
    pub(super) fn of_arrays(
        function: &'static str,
        peer: &'a Bound<'_, PyAny>,
        [buffers, peer_buffer_addresses, lengths]: TransferColumns<'_, '_>,
        hints: Hints<'_, '_>,
    ) -> PyResult<Self> {
        let locals = row_of_integers(argument(function, "buffers"), buffers)?;
        let remotes = argument(function, "peer_buffer_addresses");
        let remotes = row_of_integers(remotes, peer_buffer_addresses)?;
        let lens = argument(function, "lengths");
        let column = lens;
        let lens = row_of_integers(lens, lengths)?;
        if locals.len() != remotes.len() || locals.len() != lens.len() {
            let (locals, remotes, lens) = (locals.len(), remotes.len(), lens.len());
            let reason = format!(
                "must be as many as there are buffers and addresses: {locals} buffers, {remotes} addresses, {lens} lengths"
            );
            return Err(column.bad_value(&reason));
        }
        Self::new(function, peer, Some(rows(locals, remotes, lens)), hints)
    }

    fn new(
        function: &'static str,
        peer: &'a Bound<'_, PyAny>,
        pieces: Option<Vec<Piece>>,
        hints: Hints<'_, '_>,
    ) -> PyResult<Self> {
        let peer = argument(function, "target_hostname").text(peer)?;
        check_hints(function, hints)?;
        Ok(Self { function, peer, pieces })
    }
}

/// The arguments `transport_hint` and `nic_hint`.
pub(super) type Hints<'a, 'py> = [Option<&'a Bound<'py, PyAny>>; 2];

/// Checks that the hints are texts. They change nothing.
pub(super) fn check_hints(function: &'static str, [transport, nic]: Hints<'_, '_>) -> PyResult<()> {
    for (name, hint) in [("transport_hint", transport), ("nic_hint", nic)] {
        hint.map(|hint| argument(function, name).text(hint)).transpose()?;
    }
    Ok(())
}

fn rows(locals: Vec<u64>, remotes: Vec<u64>, lens: Vec<u64>) -> Vec<Piece> {
    let rows = locals.into_iter().zip(remotes).zip(lens);
    rows.map(|((local, remote), len)| Piece { local, remote, len }).collect()
}

/// The opcode of `TransferOpcode.Read` or `TransferOpcode.Write`, or of its number.
pub(super) fn opcode(function: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Opcode> {
    match argument(function, "opcode").number(value)? {
        0 => Ok(Opcode::Read),
        1 => Ok(Opcode::Write),
        _ => Err(argument(function, "opcode").wrong("a TransferOpcode", value)),
    }
}

fn note(notify: Option<&Bound<'_, TransferNotify>>) -> PyResult<Option<Note>> {
    notify.map(|notify| Ok(notify.try_borrow()?.note())).transpose()
}

impl TransferEngine {
    pub(super) fn run(
        &self,
        py: Python<'_>,
        opcode: Opcode,
        order: TransferArguments,
        note: Option<Note>,
    ) -> i32 {
        let function = order.function;
        let Some(engine) = self.engine_for(function) else { return FAILED };
        let Some(pieces) = order.pieces else { return FAILED };
        let run = || engine.transfer(order.peer, opcode, &pieces, note.as_ref());
        match py.detach(run) {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!("{function}: {}: {error}", order.peer);
                FAILED
            }
        }
    }
}

#[pymethods]
impl TransferEngine {
    /// Writes `length` bytes from the local address `buffer` to the address `peer_buffer_address` of the peer named
    /// `target_hostname`. Both ranges must be registered, each in its own process and by as many registrations as
    /// adjoin. Blocks until the transfer has ended.
    ///
    /// `transport_hint` and `nic_hint` are accepted and change nothing.
    ///
    /// Returns 0 when the bytes are in place, otherwise -1; the log says why.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_sync_write(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let one = [buffer, peer_buffer_address, length];
        let order = TransferArguments::of_one(
            "transfer_sync_write",
            target_hostname,
            one,
            [transport_hint, nic_hint],
        )?;
        Ok(self.run(buffer.py(), Opcode::Write, order, None))
    }

    /// Reads `length` bytes from the address `peer_buffer_address` of the peer into the local address `buffer`. Both
    /// ranges must be registered, as for `transfer_sync_write`.
    ///
    /// Returns 0 when the bytes are in place, otherwise -1.
    #[pyo3(signature = (target_hostname, buffer, peer_buffer_address, length, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_sync_read(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let one = [buffer, peer_buffer_address, length];
        let order = TransferArguments::of_one(
            "transfer_sync_read",
            target_hostname,
            one,
            [transport_hint, nic_hint],
        )?;
        Ok(self.run(buffer.py(), Opcode::Read, order, None))
    }

    /// Writes several ranges, as `transfer_sync_write`: `lengths[i]` bytes from `buffers[i]` to
    /// `peer_buffer_addresses[i]`.
    ///
    /// Returns 0 when all bytes are in place; otherwise -1, and some ranges may have been written. -1 also if the
    /// lists differ in length.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_write(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_transfer_sync_write";
        let many = [buffers, peer_buffer_addresses, lengths];
        let order =
            TransferArguments::of_many(NAME, target_hostname, many, [transport_hint, nic_hint])?;
        Ok(self.run(buffers.py(), Opcode::Write, order, None))
    }

    /// Reads several ranges, as `transfer_sync_read`: `lengths[i]` bytes from `peer_buffer_addresses[i]` to
    /// `buffers[i]`.
    ///
    /// Returns 0 when all bytes are in place; otherwise -1, and some ranges may have been read. -1 also if the lists
    /// differ in length.
    #[pyo3(signature = (target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint=None, nic_hint=None))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync_read(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "batch_transfer_sync_read";
        let many = [buffers, peer_buffer_addresses, lengths];
        let order =
            TransferArguments::of_many(NAME, target_hostname, many, [transport_hint, nic_hint])?;
        Ok(self.run(buffers.py(), Opcode::Read, order, None))
    }

    /// Reads or writes one range, as `transfer_sync_read` or `transfer_sync_write`; `opcode` is a `TransferOpcode`.
    /// Then sends `notify`, a `TransferNotify`, to the peer, unless it is None.
    ///
    /// Returns 0 when the bytes are in place and the peer has the notification, otherwise -1.
    #[pyo3(signature = (
        target_hostname, buffer, peer_buffer_address, length, opcode, notify=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffer, peer_buffer_address, length, opcode, notify=None, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn transfer_sync(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
        peer_buffer_address: &Bound<'_, PyAny>,
        length: &Bound<'_, PyAny>,
        opcode: &Bound<'_, PyAny>,
        notify: Option<&Bound<'_, TransferNotify>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let one = [buffer, peer_buffer_address, length];
        let order = TransferArguments::of_one(
            "transfer_sync",
            target_hostname,
            one,
            [transport_hint, nic_hint],
        )?;
        let opcode = self::opcode("transfer_sync", opcode)?;
        Ok(self.run(buffer.py(), opcode, order, note(notify)?))
    }

    /// Reads or writes several ranges, as `transfer_sync`. Returns 0 when all bytes are in place and the peer has the
    /// notification, otherwise -1.
    #[pyo3(signature = (
        target_hostname, buffers, peer_buffer_addresses, lengths, opcode, notify=None, transport_hint=None, nic_hint=None
    ))]
    #[pyo3(
        text_signature = "($self, target_hostname, buffers, peer_buffer_addresses, lengths, opcode, notify=None, \
            transport_hint='', nic_hint='')"
    )]
    #[expect(clippy::too_many_arguments, reason = "they are the method's in Python")]
    fn batch_transfer_sync(
        &self,
        target_hostname: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
        peer_buffer_addresses: &Bound<'_, PyAny>,
        lengths: &Bound<'_, PyAny>,
        opcode: &Bound<'_, PyAny>,
        notify: Option<&Bound<'_, TransferNotify>>,
        transport_hint: Option<&Bound<'_, PyAny>>,
        nic_hint: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let many = [buffers, peer_buffer_addresses, lengths];
        let order = TransferArguments::of_many(
            "batch_transfer_sync",
            target_hostname,
            many,
            [transport_hint, nic_hint],
        )?;
        let opcode = self::opcode("batch_transfer_sync", opcode)?;
        Ok(self.run(buffers.py(), opcode, order, note(notify)?))
    }
}
