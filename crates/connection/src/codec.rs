//! Where frames begin and end in a stream of bytes. No input or output is done here, and no other place of the
//! workspace looks into headers that arrive.

use mooncake_wire::{FrameError, HEADER_LEN, Header, Kind, Refusal, decode_refusal};

use crate::Fault;

/// The frame that must come next.
#[derive(Clone, Copy, Debug)]
pub struct Awaited<'a> {
    /// Its kind is one of these. Error messages name the first.
    pub kinds: &'a [Kind],
    /// It answers this request. A refusal may bear any id.
    pub request_id: Option<u64>,
    /// Most bytes of its body, if that is less than [`Kind::max_body_bytes`]. A refusal may have more.
    pub max_body: u32,
}

/// How much of a frame has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A part. With less than `wanted` bytes of header and body, no more can be said.
    Part {
        /// This many bytes.
        wanted: usize,
    },
    /// The whole header and the whole body.
    Whole(Header),
}

/// Why the bytes that arrived do not begin the awaited frame. Nothing more can be read from the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// They begin no frame.
    #[error(transparent)]
    Header(#[from] FrameError),
    /// The body is longer than the receiver takes from this peer at this time.
    #[error("a body of {} bytes is longer than the {max_body} allowed here", header.body_len)]
    TooLong {
        /// The header that came.
        header: Header,
        /// [`Awaited::max_body`].
        max_body: u32,
    },
    /// The frame is of another kind.
    #[error("a frame of kind {:?} came{}", header.kind, in_place_of(*awaited))]
    OtherKind {
        /// The header that came.
        header: Header,
        /// The first of the kinds that were awaited.
        awaited: Option<Kind>,
    },
    /// The frame answers another request.
    #[error("the reply to request {} came in place of that to {awaited}", header.request_id)]
    OtherRequest {
        /// The header that came.
        header: Header,
        /// [`Awaited::request_id`].
        awaited: u64,
    },
    /// Bytes came behind a frame that is the last for now.
    #[error("more bytes came than the frame has")]
    Trailing,
}

fn in_place_of(awaited: Option<Kind>) -> String {
    awaited.map_or_else(String::new, |kind| format!(" in place of {kind:?}"))
}

impl BadFrame {
    /// The id of the request, if the header could be read; otherwise zero.
    #[must_use]
    pub fn request_id(&self) -> u64 {
        match self {
            BadFrame::Header(_) | BadFrame::Trailing => 0,
            BadFrame::TooLong { header, .. }
            | BadFrame::OtherKind { header, .. }
            | BadFrame::OtherRequest { header, .. } => header.request_id,
        }
    }
}

impl<'a> Awaited<'a> {
    /// A frame of one of these kinds.
    #[must_use]
    pub const fn any_of(kinds: &'a [Kind]) -> Self {
        Self { kinds, request_id: None, max_body: u32::MAX }
    }

    /// How much of the frame `arrived`. Bytes behind it may have arrived too.
    ///
    /// # Errors
    /// They begin another frame, or none.
    #[inline]
    pub fn look_at(&self, arrived: &[u8]) -> Result<Arrival, BadFrame> {
        let Some(header) = arrived.first_chunk::<HEADER_LEN>() else {
            return Ok(Arrival::Part { wanted: HEADER_LEN });
        };
        let header = Header::decode(header)?;
        self.check(&header)?;
        let wanted = header.frame_len();
        Ok(if arrived.len() < wanted { Arrival::Part { wanted } } else { Arrival::Whole(header) })
    }

    #[inline]
    fn check(&self, header: &Header) -> Result<(), BadFrame> {
        let &Self { kinds, request_id, max_body } = self;
        let &Header { kind, .. } = header;
        let header = *header;
        if header.body_len > max_body && kind != Kind::Refusal {
            return Err(BadFrame::TooLong { header, max_body });
        }
        if !kinds.contains(&kind) {
            return Err(BadFrame::OtherKind { header, awaited: kinds.first().copied() });
        }
        match request_id {
            Some(awaited) if awaited != header.request_id && kind != Kind::Refusal => {
                Err(BadFrame::OtherRequest { header, awaited })
            }
            _ => Ok(()),
        }
    }
}

/// The fault of a call that is answered by a refusal with this body.
#[must_use]
pub fn refused(body: &[u8]) -> Fault {
    decode_refusal(body).map_or_else(Fault::from, |refusal: Refusal| Fault::Refused(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: Kind, body_len: u32, request_id: u64) -> Header {
        Header { kind, flags: 0, body_len, request_id }
    }

    #[test]
    fn a_frame_is_whole_when_its_last_byte_has_arrived() {
        let header = header(Kind::Reply, 5, 7);
        let stream = [&header.encode()[..], b"body!", b"what follows"].concat();
        let awaited =
            Awaited { request_id: Some(7), ..Awaited::any_of(&[Kind::Reply, Kind::Refusal]) };
        for end in 0..stream.len() {
            let expected = match end {
                0..HEADER_LEN => Arrival::Part { wanted: HEADER_LEN },
                HEADER_LEN..21 => Arrival::Part { wanted: 21 },
                _ => Arrival::Whole(header),
            };
            assert_eq!(awaited.look_at(&stream[..end]), Ok(expected), "{end} bytes");
        }
    }

    #[test]
    fn a_frame_that_is_not_awaited_is_refused_by_its_header_alone() {
        let awaited = Awaited {
            request_id: Some(7),
            max_body: 8,
            ..Awaited::any_of(&[Kind::Reply, Kind::Refusal])
        };
        let look_at = |header: Header| awaited.look_at(&header.encode());
        let other = header(Kind::Request, 3, 7);
        let longer = header(Kind::Reply, 9, 7);
        let stray = header(Kind::Reply, 3, 8);
        for (header, expected) in [
            (other, BadFrame::OtherKind { header: other, awaited: Some(Kind::Reply) }),
            (longer, BadFrame::TooLong { header: longer, max_body: 8 }),
            (stray, BadFrame::OtherRequest { header: stray, awaited: 7 }),
        ] {
            assert_eq!(expected.request_id(), header.request_id);
            assert_eq!(look_at(header), Err(expected));
        }
        // A refusal is about the connection, not about a request.
        let refusal = header(Kind::Refusal, 100, 0);
        assert_eq!(look_at(refusal), Ok(Arrival::Part { wanted: 116 }));
        let too_long = header(Kind::Refusal, Kind::Refusal.max_body_bytes() + 1, 0);
        let Err(BadFrame::Header(FrameError::BodyTooLong { .. })) = look_at(too_long) else {
            panic!("no kind of frame exceeds its own limit");
        };
    }
}
