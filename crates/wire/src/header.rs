use mooncake_types::limits::{
    MAX_ATTRIBUTES_BYTES, MAX_BEGIN_RANGES, MAX_FRAME_BODY_BYTES, MAX_FRAME_RANGES, MAX_KEY_BYTES,
    MAX_REMOTE_MEMORY_BYTES, MAX_TRANSPORT_ADDRESS_BYTES,
};

use crate::foreign_protocol;

/// Length of an encoded [`Header`], in bytes.
pub const HEADER_LEN: usize = 16;

/// Longest body of a handshake frame, in bytes. A peer can make the other side allocate this much before it has shown
/// its token.
pub const MAX_HANDSHAKE_BODY_BYTES: u32 = 16 << 10;

/// The first two bytes of every frame, `KM` on the wire.
const MAGIC: u16 = 0x4D4B;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $number:literal,)*) => {
        /// The kind of a frame. The numbers are those on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[$doc])* $variant = $number,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Kind] = &[$(Kind::$variant,)*];

            /// The kind with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// A [`crate::Hello`].
    Hello = 1,
    /// A [`crate::Welcome`].
    Welcome = 2,
    /// A [`crate::Refusal`].
    Refusal = 3,
    /// From the side that accepts the connection, to a [`Kind::Hello`]: a [`crate::Nonce`].
    Challenge = 4,
    /// From the side that opened the connection, to a [`Kind::Challenge`]: a [`crate::Proof`].
    Proof = 5,
    /// To the master: a [`mooncake_types::Request`].
    Request = 16,
    /// From the master: a [`mooncake_types::Reply`].
    Reply = 17,
    /// To a node: ranges to read.
    Read = 32,
    /// From a node: one result per range, then the payload and its trailer (see [`crate::encode_results`]).
    ReadReply = 33,
    /// To a node: ranges to write, then the payload of each range, followed by the checksums of its chunks.
    Write = 34,
    /// From a node: one result per range.
    WriteReply = 35,
    /// To a node: entries to drop.
    Drop = 36,
    /// From a node: one result per range.
    DropReply = 37,
    /// To a node, from a standby master: asks for the entries of a ledger, and then for its changes.
    Follow = 38,
    /// From a node: a page of entries or changes.
    FollowReply = 39,
    /// To a node, on its local socket or for its transport: asks for a segment's memory.
    Share = 40,
    /// From a node: a [`crate::Shared`], and file descriptors.
    ShareReply = 41,
    /// To a node, on its local socket or for its transport: ranges that the sender wants to write in place.
    Begin = 42,
    /// From a node: one result per range.
    BeginReply = 43,
    /// To a node, on the connection of a [`Kind::Begin`] or a [`Kind::Expose`]: one result per range that was begun.
    Complete = 44,
    /// From a node: one result per range that was begun.
    CompleteReply = 45,
    /// To a node, on its local socket: ranges whose bytes must not change.
    Pin = 46,
    /// From a node: one result per range.
    PinReply = 47,
    /// To a node, on its local socket: ranges that may change again. There is no answer.
    Unpin = 48,
    /// From a node, before its answer to a request: the node waits for a disk or an object store. The body is empty.
    Keepalive = 49,
    /// To a node: entries of which the sender has copies. It asks for a promise, to use the copies for a time without
    /// asking.
    Promise = 50,
    /// From a node: one result per range.
    PromiseReply = 51,
    /// From a node, to a [`Kind::Begin`] or a [`Kind::Expose`] by TCP: for each range how the sender reaches it by the
    /// node's transport, or why it may not.
    Begun = 52,
    /// To a node, by TCP for its transport: ranges that the sender wants to read one-sided. The node answers with
    /// [`Kind::Begun`], and the sender sends [`Kind::Complete`] when it has read them.
    Expose = 53,
    /// To a node, where its transport connects peers in pairs: the sender's end of a connection.
    Join = 54,
    /// From a node: its own end.
    JoinReply = 55,
    /// To a host process, from a dummy client: a [`mooncake_types::DummyRequest`]. A file descriptor arrives with some
    /// of these.
    DummyRequest = 64,
    /// From a host process: a [`mooncake_types::DummyReply`].
    DummyReply = 65,
}

impl Kind {
    /// Longest body of a frame of this kind, in bytes. A peer can make this side allocate this much at once. The bound
    /// leaves room for the fullest frame that the limits allow, and for fields of later versions.
    #[must_use]
    pub const fn max_body_bytes(self) -> u32 {
        const RANGES: u32 = MAX_FRAME_RANGES as u32;
        match self {
            Kind::Hello | Kind::Welcome | Kind::Refusal => MAX_HANDSHAKE_BODY_BYTES,
            Kind::Challenge | Kind::Proof => 256,
            Kind::Request | Kind::Reply | Kind::FollowReply => MAX_FRAME_BODY_BYTES,
            Kind::DummyRequest | Kind::DummyReply => MAX_FRAME_BODY_BYTES,
            Kind::Read | Kind::Drop | Kind::Pin | Kind::Promise | Kind::Expose => RANGES * 128,
            Kind::Write | Kind::Begin => {
                RANGES * ((MAX_KEY_BYTES + MAX_ATTRIBUTES_BYTES) as u32 + 144)
            }
            Kind::ReadReply | Kind::WriteReply | Kind::DropReply => RANGES * 16,
            Kind::BeginReply | Kind::Complete | Kind::CompleteReply => RANGES * 16,
            Kind::Begun => MAX_BEGIN_RANGES as u32 * (MAX_REMOTE_MEMORY_BYTES as u32 + 16),
            Kind::PinReply | Kind::Unpin | Kind::PromiseReply => RANGES * 16,
            Kind::ShareReply => 2 * MAX_REMOTE_MEMORY_BYTES as u32 + 256,
            Kind::Share | Kind::Follow => 256,
            Kind::Join | Kind::JoinReply => MAX_TRANSPORT_ADDRESS_BYTES as u32 + 256,
            Kind::Keepalive => 0,
        }
    }
}

/// The 16 bytes before the body of every frame. On the wire, little endian: magic `u16`, kind `u8`, flags `u8`, length
/// of the body `u32`, request id `u64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of the frame.
    pub kind: Kind,
    /// Bit 0: the body ends with the trace of the caller, see [`crate::append_trace`]. Senders write the others as zero, and
    /// receivers ignore them: they are reserved for later versions.
    pub flags: u8,
    /// Length of the body in bytes, without the payload after it.
    pub body_len: u32,
    /// The side that asks chooses it, and the side that answers repeats it.
    pub request_id: u64,
}

/// A [`Kind::Keepalive`] frame, which is a header and nothing else.
#[must_use]
pub fn keepalive(request_id: u64) -> [u8; HEADER_LEN] {
    Header { kind: Kind::Keepalive, flags: 0, body_len: 0, request_id }.encode()
}

/// The end of an error message that names the peer's protocol; empty if it is unknown.
fn hint(protocol: Option<&str>) -> String {
    let hint =
        |protocol| format!(": it speaks {protocol}; the port that serves the pool is another");
    protocol.map_or_else(String::new, hint)
}

/// Why a header does not begin a frame. The receiver must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The peer speaks another protocol.
    #[error("a frame must begin with {MAGIC:#06x}, not with {found:#06x}{}", hint(*protocol))]
    BadMagic {
        /// The first two bytes, little endian.
        found: u16,
        /// The protocol that begins with these bytes, if it is known.
        protocol: Option<&'static str>,
    },
    /// The peer speaks another version of this protocol.
    #[error("there is no frame of kind {found}")]
    UnknownKind {
        /// The number in the header.
        found: u8,
    },
    /// The body is longer than its kind allows.
    #[error("the body of a {kind:?} frame has {found} bytes, over the limit of {limit}")]
    BodyTooLong {
        /// The kind of the frame.
        kind: Kind,
        /// The length in the header, in bytes.
        found: u32,
        /// [`Kind::max_body_bytes`].
        limit: u32,
    },
}

impl Header {
    /// Length of the header and the body, in bytes.
    #[must_use]
    pub const fn frame_len(&self) -> usize {
        HEADER_LEN + self.body_len as usize
    }

    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..2].copy_from_slice(&MAGIC.to_le_bytes());
        out[2] = self.kind as u8;
        out[3] = self.flags;
        out[4..8].copy_from_slice(&self.body_len.to_le_bytes());
        out[8..16].copy_from_slice(&self.request_id.to_le_bytes());
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// If the bytes do not begin a frame, or its body is too long: see [`FrameError`].
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, FrameError> {
        let [m0, m1, kind, flags, l0, l1, l2, l3, request_id @ ..] = *bytes;
        let magic = u16::from_le_bytes([m0, m1]);
        if magic != MAGIC {
            return Err(FrameError::BadMagic { found: magic, protocol: foreign_protocol(bytes) });
        }
        let Some(kind) = Kind::from_number(kind) else {
            return Err(FrameError::UnknownKind { found: kind });
        };
        let (found, limit) = (u32::from_le_bytes([l0, l1, l2, l3]), kind.max_body_bytes());
        if found > limit {
            return Err(FrameError::BodyTooLong { kind, found, limit });
        }
        let request_id = u64::from_le_bytes(request_id);
        Ok(Header { kind, flags, body_len: found, request_id })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; HEADER_LEN] =
        [0x4B, 0x4D, 17, 0, 0, 0, 0, 2, 0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01];

    #[test]
    fn a_header_is_little_endian() {
        let header = Header {
            kind: Kind::Reply,
            flags: 0,
            body_len: MAX_FRAME_BODY_BYTES,
            request_id: 0x0123_4567_89AB_CDEF,
        };
        assert_eq!(header.encode(), BYTES);
        assert_eq!(Header::decode(&BYTES), Ok(header));
    }

    #[test]
    fn every_kind_is_found_by_its_number() {
        for number in 0..=u8::MAX {
            let found = Kind::from_number(number);
            assert_eq!(found, Kind::ALL.iter().copied().find(|&kind| kind as u8 == number));
        }
    }

    #[test]
    fn bytes_that_begin_no_frame_are_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = BYTES;
            bytes[at] = byte;
            Header::decode(&bytes)
        };
        let too_long = |kind, found, limit| Err(FrameError::BodyTooLong { kind, found, limit });
        assert_eq!(with(0, 0x00), Err(FrameError::BadMagic { found: 0x4D00, protocol: None }));
        assert_eq!(with(1, 0x54), Err(FrameError::BadMagic { found: 0x544B, protocol: None }));
        assert_eq!(with(2, 99), Err(FrameError::UnknownKind { found: 99 }));
        assert_eq!(with(4, 1), too_long(Kind::Reply, (32 << 20) + 1, 32 << 20));
        assert_eq!(with(2, 1), too_long(Kind::Hello, 32 << 20, 16 << 10));
    }

    #[test]
    fn who_speaks_http_is_told_apart() {
        let text = |bytes: &[u8; HEADER_LEN]| Header::decode(bytes).unwrap_err().to_string();
        let http = text(b"HTTP/1.1 400 Bad");
        assert!(http.starts_with("a frame must begin with 0x4d4b") && http.contains("speaks HTTP"));
        assert!(!text(b"SSH-2.0-OpenSSH_").contains("HTTP"));
    }
}
