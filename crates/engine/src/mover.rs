use std::sync::Arc;

use mooncake_memory::{Buffer, DeviceRegion, Region};
use mooncake_transfer::{
    FabricDevice, LocalTransport, Paths, ReadOp, StagedTransport, TcpConfig, TcpTransport,
    TransferError, Transport, Transports, WriteOp,
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
    pub(crate) opcode: Opcode,
    /// The pieces, each with its memory in this process, whose registrations it holds.
    pub(crate) pieces: Vec<(Piece, HeldBytes)>,
    /// The length of all pieces together.
    pub(crate) len_bytes: u64,
}

impl HeldTransfer {
    pub(crate) fn push(&mut self, piece: Piece, memory: HeldBytes) {
        self.len_bytes += piece.len;
        self.pieces.push((piece, memory));
    }
}

/// Runs transfers on the caller's thread.
pub(crate) struct Mover {
    pub(crate) host: Arc<Host>,
    local: LocalTransport,
    remote: Remote,
}

/// The way to other engines.
enum Remote {
    Tcp(TcpTransport),
    /// One-sided, where they offer it.
    Paths(Paths),
}

/// How the pieces of a transfer are moved.
enum Way<'m> {
    /// Memory of devices is staged.
    Staged(StagedTransport<'m>),
    /// It is used in place where network cards can, and staged elsewhere.
    Paths(&'m Paths),
}

impl Way<'_> {
    fn transport(&self) -> &dyn Transport {
        match self {
            Way::Staged(staged) => staged,
            Way::Paths(paths) => *paths,
        }
    }
}

impl Mover {
    /// Reaches peers one-sided by the device, in the allowed ways, or by TCP if there is none.
    pub(crate) fn new(
        host: Arc<Host>,
        config: TcpConfig,
        fabric: Option<(Arc<FabricDevice>, Transports)>,
    ) -> Self {
        let local = LocalTransport::new(host.clone());
        let remote = match fabric {
            None => Remote::Tcp(TcpTransport::new(config)),
            Some((device, ways)) => {
                Remote::Paths(Paths::new(None, config, ways).with_fabric_that_asks(Some(device)))
            }
        };
        Self { host, local, remote }
    }

    /// Transfers may use a registered range in place from now on.
    pub(crate) fn know(&self, region: Option<Arc<Region>>) {
        if let (Remote::Paths(paths), Some(region)) = (&self.remote, region) {
            paths.know_region(region);
        }
    }

    /// As [`Mover::know`], for memory of a device.
    pub(crate) fn know_device(&self, region: DeviceRegion) {
        if let Remote::Paths(paths) = &self.remote {
            paths.know_device(region);
        }
    }

    /// Transfers hold the range that begins here no longer than they take.
    pub(crate) fn forget(&self, start: u64) {
        if let Remote::Paths(paths) = &self.remote {
            paths.forget(start as usize);
        }
    }

    /// Checks the pieces of a transfer, and holds their registrations.
    pub(crate) fn load(&self, opcode: Opcode, pieces: &[Piece]) -> Result<HeldTransfer, MoveError> {
        let too_large = MoveError::TooLarge { pieces: pieces.len() };
        if pieces.len() > MAX_PIECES {
            return Err(too_large);
        }
        let mut len_bytes = 0_u64;
        let mut loaded = Vec::with_capacity(pieces.len());
        for &piece in pieces.iter().filter(|piece| piece.len > 0) {
            len_bytes = len_bytes.checked_add(piece.len).ok_or(too_large.clone())?;
            let held = self.hold(opcode, &piece)?;
            match piece.len <= MAX_DEVICE_BYTES {
                true => loaded.push((piece, held)),
                false => loaded.extend(cut(piece, &held)),
            }
        }
        Ok(HeldTransfer { opcode, pieces: loaded, len_bytes })
    }

    fn hold(&self, opcode: Opcode, piece: &Piece) -> Result<HeldBytes, MoveError> {
        let (start, len, written) = (piece.local, piece.len, opcode == Opcode::Read);
        let held = self.host.registry.hold(start, len, written);
        held.ok_or(MoveError::NotRegistered { start, len, written })
    }

    fn way(&self, route: &Route) -> (Way<'_>, Arc<str>) {
        match (route, &self.remote) {
            (Route::Own, _) => (Way::Staged(StagedTransport(&self.local)), "itself".into()),
            (Route::At(endpoint), Remote::Tcp(tcp)) => {
                (Way::Staged(StagedTransport(tcp)), Arc::clone(endpoint))
            }
            (Route::At(endpoint), Remote::Paths(paths)) => {
                (Way::Paths(paths), Arc::clone(endpoint))
            }
        }
    }

    /// Moves all pieces. Returns the first failure.
    pub(crate) fn run(&self, route: &Route, load: &HeldTransfer) -> Result<(), TransferError> {
        let (way, endpoint) = self.way(route);
        let results = match load.opcode {
            Opcode::Read => {
                let ops = load.pieces.iter().map(|(piece, memory)| ReadOp {
                    endpoint: Arc::clone(&endpoint),
                    range: memory_read(piece.remote, piece.len),
                    dst: memory.placed().into(),
                });
                way.transport().read(&ops.collect::<Vec<_>>())
            }
            Opcode::Write => {
                let ops = load.pieces.iter().map(|(piece, memory)| WriteOp {
                    endpoint: Arc::clone(&endpoint),
                    range: memory_write(piece.remote, piece.len),
                    src: memory.placed().into(),
                });
                way.transport().write(EPOCH, &ops.collect::<Vec<_>>())
            }
        };
        results.into_iter().collect()
    }

    /// Leaves a note with the peer.
    pub(crate) fn send(&self, route: &Route, note: &Note) -> Result<(), MoveError> {
        let bytes = Buffer::from_vec(note.encode()?);
        let (way, endpoint) = self.way(route);
        let range = mailbox_write(bytes.len() as u64);
        let op = WriteOp { endpoint, range, src: bytes.raw().into() };
        way.transport().write(EPOCH, &[op]).into_iter().collect::<Result<(), _>>()?;
        Ok(())
    }

    /// Reads the directory of the peer.
    pub(crate) fn directory(&self, route: &Route) -> Result<Directory, TransferError> {
        let bytes = Buffer::zeroed(Directory::BYTES);
        let (way, endpoint) = self.way(route);
        let op = ReadOp { endpoint, range: directory_read(), dst: bytes.raw().into() };
        way.transport().read(&[op]).into_iter().collect::<Result<(), _>>()?;
        Ok(Directory::decode(bytes.as_slice())
            .expect("a directory's bytes are as many as asked for"))
    }
}

/// Cuts a piece into parts of at most [`MAX_DEVICE_BYTES`], since the peer's memory may be that of a device.
fn cut(piece: Piece, memory: &HeldBytes) -> Vec<(Piece, HeldBytes)> {
    let part = |from: u64| {
        let len = MAX_DEVICE_BYTES.min(piece.len - from);
        let (local, remote) = (piece.local + from, piece.remote.saturating_add(from));
        (Piece { local, remote, len }, memory.sub(from as usize, len as usize))
    };
    (0..piece.len).step_by(MAX_DEVICE_BYTES as usize).map(part).collect()
}
