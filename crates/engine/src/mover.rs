use std::sync::Arc;

use mooncake_memory::{Buffer, Region, SliceList};
use mooncake_transfer::{
    LocalTransport, ReadOp, StagedTransport, TcpConfig, TcpTransport, TransferError, Transport,
    WriteOp,
};

use crate::host::{
    Directory, EPOCH, Host, directory_read, mailbox_write, memory_read, memory_write,
};
use crate::piece::MAX_DEVICE_BYTES;
use crate::registry::HeldBytes;
use crate::{MAX_PIECES, MoveError, Note, Opcode, Piece};

/// How a peer is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The peer is this engine.
    Own,
    /// The peer is at this `host:port`.
    At(Arc<str>),
}

/// A transfer whose memory in this process is held.
#[derive(Debug)]
pub(crate) struct HeldTransfer {
    opcode: Opcode,
    /// The pieces, each with its memory in this process.
    pieces: Vec<(Piece, SliceList)>,
    /// The length of all pieces together.
    pub(crate) len_bytes: u64,
    /// The registrations that the transfer uses. They are held until it is dropped.
    _held: Vec<Arc<Region>>,
}

/// Runs transfers on the caller's thread.
pub(crate) struct Mover {
    pub(crate) host: Arc<Host>,
    local: LocalTransport,
    tcp: TcpTransport,
}

impl Mover {
    pub(crate) fn new(host: Arc<Host>, config: TcpConfig) -> Self {
        let local = LocalTransport::new(host.clone());
        Self { host, local, tcp: TcpTransport::new(config) }
    }

    /// Checks the pieces of a transfer, and holds their registrations.
    pub(crate) fn load(&self, opcode: Opcode, pieces: &[Piece]) -> Result<HeldTransfer, MoveError> {
        let too_large = MoveError::TooLarge { pieces: pieces.len() };
        if pieces.len() > MAX_PIECES {
            return Err(too_large);
        }
        let mut len_bytes = 0_u64;
        let mut loaded = Vec::with_capacity(pieces.len());
        let mut held: Vec<Arc<Region>> = Vec::new();
        for &piece in pieces.iter().filter(|piece| piece.len > 0) {
            len_bytes = len_bytes.checked_add(piece.len).ok_or(too_large.clone())?;
            let HeldBytes { bytes, region } = self.hold(opcode, &piece)?;
            loaded.extend(cut(piece, &SliceList::from(bytes)));
            // Neighbouring pieces mostly lie in the same registration.
            if !held.last().is_some_and(|last| Arc::ptr_eq(last, &region)) {
                held.push(region);
            }
        }
        Ok(HeldTransfer { opcode, pieces: loaded, len_bytes, _held: held })
    }

    fn hold(&self, opcode: Opcode, piece: &Piece) -> Result<HeldBytes, MoveError> {
        let (start, len, written) = (piece.local, piece.len, opcode == Opcode::Read);
        let held = self.host.registry.hold(start, len, written);
        held.ok_or(MoveError::NotRegistered { start, len, written })
    }

    fn transport(&self, route: &Route) -> (StagedTransport<'_>, Arc<str>) {
        match route {
            Route::Own => (StagedTransport(&self.local), "itself".into()),
            Route::At(endpoint) => (StagedTransport(&self.tcp), Arc::clone(endpoint)),
        }
    }

    /// Moves all pieces. Returns the first failure.
    pub(crate) fn run(&self, route: &Route, load: &HeldTransfer) -> Result<(), TransferError> {
        let (transport, endpoint) = self.transport(route);
        let results = match load.opcode {
            Opcode::Read => {
                let op = |(piece, memory): &(Piece, SliceList)| ReadOp {
                    endpoint: Arc::clone(&endpoint),
                    range: memory_read(piece.remote, piece.len),
                    dst: memory.clone(),
                };
                transport.read(&load.pieces.iter().map(op).collect::<Vec<_>>())
            }
            Opcode::Write => {
                let op = |(piece, memory): &(Piece, SliceList)| WriteOp {
                    endpoint: Arc::clone(&endpoint),
                    range: memory_write(piece.remote, piece.len),
                    src: memory.clone(),
                };
                transport.write(EPOCH, &load.pieces.iter().map(op).collect::<Vec<_>>())
            }
        };
        results.into_iter().collect()
    }

    /// Leaves a note with the peer.
    pub(crate) fn send(&self, route: &Route, note: &Note) -> Result<(), MoveError> {
        let bytes = Buffer::from_vec(note.encode()?);
        let (transport, endpoint) = self.transport(route);
        let range = mailbox_write(bytes.len() as u64);
        let op = WriteOp { endpoint, range, src: bytes.raw().into() };
        transport.write(EPOCH, &[op]).into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }

    /// Reads the directory of the peer.
    pub(crate) fn directory(&self, route: &Route) -> Result<Directory, TransferError> {
        let bytes = Buffer::zeroed(Directory::BYTES);
        let (transport, endpoint) = self.transport(route);
        let op = ReadOp { endpoint, range: directory_read(), dst: bytes.raw().into() };
        transport.read(&[op]).into_iter().collect::<Result<(), _>>()?;
        Ok(Directory::decode(bytes.as_slice())
            .expect("a directory's bytes are as many as asked for"))
    }
}

/// Cuts a piece into parts of at most [`MAX_DEVICE_BYTES`], since the peer's memory may be that of a device.
fn cut(piece: Piece, memory: &SliceList) -> Vec<(Piece, SliceList)> {
    let part = |from: u64| {
        let len = MAX_DEVICE_BYTES.min(piece.len - from);
        let (local, remote) = (piece.local + from, piece.remote.saturating_add(from));
        (Piece { local, remote, len }, memory.part(from, len))
    };
    (0..piece.len).step_by(MAX_DEVICE_BYTES as usize).map(part).collect()
}
