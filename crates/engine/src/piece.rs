/// Most pieces in one transfer.
pub const MAX_PIECES: usize = 1 << 20;

/// Longest range of a device's memory that an engine takes from a peer, or gives to it, at once. Engines cut longer pieces.
pub(crate) const MAX_DEVICE_BYTES: u64 = mooncake_device::STAGING_BYTES as u64;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// From the peer to this process.
    Read,
    /// From this process to the peer.
    Write,
}

/// One range to be moved. Each end lies within one registration of its side. A piece of no bytes is done at once, wherever
/// it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its address in this process.
    pub local: u64,
    /// Its address in the peer.
    pub remote: u64,
    /// Its length in bytes.
    pub len: u64,
}
