//! The caller's trace in frames that ask for something.

use mooncake_types::TraceParent;

use crate::{HEADER_LEN, Header, Kind};

/// Set in the flags of a frame whose body ends with [`FIELD`].
const TRACED: u8 = 1;

/// The key of field 100, which is length-delimited, and the length. Every message of these kinds has it at its end.
/// Receivers of earlier versions ignore the flag, and skip the field.
const FIELD: [u8; 3] = [0xA2, 0x06, TraceParent::LEN as u8];

const FIELD_LEN: usize = FIELD.len() + TraceParent::LEN;

/// Adds the caller's trace to the frame that begins at `start` in `out`, and ends where `out` does. Does nothing for
/// frames that belong to no call, and for those that have no room.
pub fn append_trace(out: &mut Vec<u8>, start: usize, parent: TraceParent) {
    let Some(head) = out.get(start..).and_then(<[u8]>::first_chunk::<HEADER_LEN>) else { return };
    let Ok(header) = Header::decode(head) else { return };
    let body_len = header.body_len.saturating_add(FIELD_LEN as u32);
    let is_whole = out.len() == start + header.frame_len();
    if !is_whole || !belongs_to_call(header.kind) || body_len > header.kind.max_body_bytes() {
        return;
    }
    let header = Header { flags: header.flags | TRACED, body_len, ..header };
    out[start..start + HEADER_LEN].copy_from_slice(&header.encode());
    out.extend_from_slice(&FIELD);
    out.extend_from_slice(&parent.to_bytes());
}

/// The caller's trace, if the frame with this header and body has one.
#[must_use]
pub fn trace_of(header: &Header, body: &[u8]) -> Option<TraceParent> {
    if header.flags & TRACED == 0 {
        return None;
    }
    let field = body.last_chunk::<FIELD_LEN>()?;
    let (key, parent) = field.split_first_chunk::<3>()?;
    TraceParent::from_bytes(parent.first_chunk()?).filter(|_| *key == FIELD)
}

const fn belongs_to_call(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Request
            | Kind::Read
            | Kind::Write
            | Kind::Drop
            | Kind::Promise
            | Kind::Begin
            | Kind::Expose
            | Kind::Pin
    )
}

#[cfg(test)]
mod tests {
    use mooncake_types::{Epoch, RangeRead, Request, Seal, SegmentId, Version};

    use super::*;
    use crate::{decode_read, decode_request, encode_read, encode_request, keepalive};

    const PARENT: TraceParent = TraceParent { trace: 0x0102_0304, span: 0x0506 };

    fn split(frame: &[u8]) -> (Header, &[u8]) {
        let (header, body) = frame.split_first_chunk::<HEADER_LEN>().expect("a header");
        let header = Header::decode(header).expect("a frame");
        assert_eq!(header.body_len as usize, body.len());
        (header, body)
    }

    #[test]
    fn a_request_is_read_alike_with_a_trace_and_without() {
        let request = Request::exist(vec!["a", "b"]);
        let mut frame = vec![7; 3];
        encode_request(&mut frame, 5, &request);
        assert_eq!(trace_of(&split(&frame[3..]).0, split(&frame[3..]).1), None);
        append_trace(&mut frame, 3, PARENT);
        let (header, body) = split(&frame[3..]);
        assert_eq!(trace_of(&header, body), Some(PARENT));
        let message = decode_request(body.to_vec().into()).expect("a field more does no harm");
        assert_eq!(message.request(), Ok(request));
    }

    #[test]
    fn ranges_are_read_alike_with_a_trace_and_without() {
        let range = RangeRead {
            segment: SegmentId(1),
            offset: 2,
            version: Version { epoch: Epoch(3), counter: 4 },
            object_offset: 0,
            from: 5,
            len: 6,
            seal: Seal::NONE,
        };
        let ranges = vec![range; 3];
        let mut frame = Vec::new();
        encode_read(&mut frame, 5, &ranges);
        append_trace(&mut frame, 0, PARENT);
        let (header, body) = split(&frame);
        assert_eq!(trace_of(&header, body), Some(PARENT));
        assert_eq!(decode_read(body), Ok(ranges));
    }

    #[test]
    fn frames_of_no_call_and_broken_ones_have_no_trace() {
        let mut frame = keepalive(5).to_vec();
        append_trace(&mut frame, 0, PARENT);
        assert_eq!(frame, keepalive(5));
        let mut short = vec![1, 2, 3];
        append_trace(&mut short, 0, PARENT);
        append_trace(&mut short, 9, PARENT);
        assert_eq!(short, [1, 2, 3]);
        let header = Header { kind: Kind::Request, flags: TRACED, body_len: 0, request_id: 1 };
        for body in [&[][..], &[0; FIELD_LEN], &[0xA2; 26]] {
            assert_eq!(trace_of(&header, body), None);
        }
    }
}
