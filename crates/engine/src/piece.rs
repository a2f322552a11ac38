/// Most pieces in one transfer.
pub const MAX_PIECES: usize = 1 << 20;

/// Most bytes of device memory that an engine moves at once for a peer. Longer pieces are cut.
pub(crate) const MAX_DEVICE_BYTES: u64 = mooncake_device::STAGING_BYTES as u64;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// From the peer to this process.
    Read,
    /// From this process to the peer.
    Write,
}

/// One range to move. Each end must lie within registered memory of its side: within one range, or within several that
/// adjoin. A piece without bytes succeeds at once, whatever its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The address in this process.
    pub local: u64,
    /// The address in the peer.
    pub remote: u64,
    /// The length in bytes.
    pub len: u64,
}
