use mooncake_types::ErrorCode;
use mooncake_types::limits::MAX_FRAME_BODY_BYTES;
use prost::Message;

use crate::field::Field;
use crate::generated_fields::exist_key_request as key_list;
use crate::{Header, Kind, status};

/// Appends a frame whose body is `message`.
pub(crate) fn append(out: &mut Vec<u8>, kind: Kind, request_id: u64, message: &impl Message) {
    begin(out, kind, request_id, message.encoded_len());
    put(out, message);
}

/// Appends a frame whose body is an envelope that holds `message` in its field `number`.
fn append_in(
    out: &mut Vec<u8>,
    (kind, request_id): (Kind, u64),
    number: u32,
    message: &impl Message,
) {
    let len = message.encoded_len();
    begin(out, kind, request_id, field_len(number, len));
    put_key(out, number, len);
    put(out, message);
}

/// Appends a frame whose body holds `keys` and the message `rest`. With an `envelope`, the body holds both in that
/// field of it.
///
/// In every message with keys, `keys` is field 1. The encoding of field 1, followed by that of the other fields, is
/// the encoding of the message. So `rest` comes without keys, and this function copies each key once, from the
/// caller's string into the frame.
pub(crate) fn append_keyed<'a>(
    out: &mut Vec<u8>,
    (kind, request_id): (Kind, u64),
    envelope: Option<&Field>,
    keys: impl Iterator<Item = &'a str> + Clone,
    rest: &impl Message,
) {
    let keys_len: usize = keys.clone().map(|key| delimited_len(key.len())).sum();
    let len = keys_len + rest.encoded_len();
    match envelope {
        None => begin(out, kind, request_id, len),
        Some(field) => {
            begin(out, kind, request_id, field_len(field.number, len));
            put_key(out, field.number, len);
        }
    }
    for key in keys {
        put_key(out, key_list::KEYS.number, key.len());
        out.extend_from_slice(key.as_bytes());
    }
    put(out, rest);
}

/// Writes a request into a frame, as one field of an envelope.
pub(crate) struct RequestWriter<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// The kind of the frame, and the id of the request.
    pub(crate) frame: (Kind, u64),
}

impl RequestWriter<'_> {
    pub(crate) fn message(&mut self, field: &Field, message: &impl Message) {
        append_in(self.out, self.frame, field.number, message);
    }

    /// `rest` is the message without its keys.
    pub(crate) fn keyed<'k>(
        &mut self,
        field: &Field,
        keys: impl Iterator<Item = &'k str> + Clone,
        rest: &impl Message,
    ) {
        append_keyed(self.out, self.frame, Some(field), keys, rest);
    }

    /// As [`RequestWriter::keyed`], for a list of keys.
    pub(crate) fn keys(&mut self, field: &Field, keys: &[&str], rest: &impl Message) {
        self.keyed(field, keys.iter().copied(), rest);
    }
}

/// Writes a reply into a frame, as one field of an envelope. If the reply does not fit, writes a refusal instead.
pub(crate) struct ReplyWriter<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    /// The kind of the frame, and the id of the request.
    pub(crate) frame: (Kind, u64),
    /// The field of the envelope that holds a refusal of the whole request.
    pub(crate) refused: &'static Field,
}

impl ReplyWriter<'_> {
    pub(crate) fn append(self, field: &Field, message: &impl Message) {
        if field_len(field.number, message.encoded_len()) <= MAX_FRAME_BODY_BYTES as usize {
            return append_in(self.out, self.frame, field.number, message);
        }
        let refused = status::to_message(ErrorCode::BufferOverflow.number());
        append_in(self.out, self.frame, self.refused.number, &refused);
    }
}

/// The encoded length of a field with a number below 16 that holds `len` bytes.
pub(crate) fn delimited_len(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

/// The encoded length of a field that holds `len` bytes. From number 16 on, its key has two bytes.
fn field_len(number: u32, len: usize) -> usize {
    delimited_len(len) + usize::from(number >= 16)
}

fn begin(out: &mut Vec<u8>, kind: Kind, request_id: u64, body_len: usize) {
    let body_len = u32::try_from(body_len).unwrap_or(u32::MAX);
    assert!(
        body_len <= MAX_FRAME_BODY_BYTES,
        "the caller keeps the limits on keys and batches, so a frame's body fits: {body_len} bytes"
    );
    let header = Header { kind, flags: 0, body_len, request_id };
    let header = header.encode();
    out.reserve(header.len() + body_len as usize);
    out.extend_from_slice(&header);
}

/// Appends the key of a length-delimited field, and its length `len`.
fn put_key(out: &mut Vec<u8>, number: u32, len: usize) {
    const LENGTH_DELIMITED: u32 = 2;
    assert!(number < 2048, "the key of a field has two bytes at most");
    put_varint(out, (number << 3 | LENGTH_DELIMITED) as usize);
    put_varint(out, len);
}

fn put_varint(out: &mut Vec<u8>, mut rest: usize) {
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn put(out: &mut Vec<u8>, message: &impl Message) {
    message.encode(out).expect("a Vec takes a message of any length");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HEADER_LEN;
    use crate::generated as proto;
    use crate::generated_fields::request;

    #[test]
    fn keys_that_are_appended_are_the_field_that_the_schema_has() {
        let keys = ["", "a", &"k".repeat(127), &"k".repeat(128), &"k".repeat(16_384)];
        let request = |keys| proto::RemoveRequest { keys, force: true };
        let with_keys = request(keys.iter().map(|&key| String::from(key).into()).collect());
        let rest = request(Vec::new());

        let mut alone = Vec::new();
        append_keyed(&mut alone, (Kind::Request, 7), None, keys.into_iter(), &rest);
        assert_eq!(alone[HEADER_LEN..], with_keys.encode_to_vec());

        let operation = Some(proto::request::Operation::Remove(with_keys));
        let envelope = proto::Request { operation };
        let mut inside = Vec::new();
        append_keyed(
            &mut inside,
            (Kind::Request, 7),
            Some(&request::REMOVE),
            keys.into_iter(),
            &rest,
        );
        assert_eq!(inside[HEADER_LEN..], envelope.encode_to_vec());

        let keys = keys.map(|key| String::from(key).into()).to_vec();
        let operation = Some(proto::request::Operation::Prefetch(proto::PrefetchRequest {
            keys: keys.clone(),
        }));
        let envelope = proto::Request { operation };
        let keys = keys.iter().map(|key| std::str::from_utf8(key).expect("it was text"));
        let (mut inside, rest) = (Vec::new(), proto::PrefetchRequest::default());
        append_keyed(&mut inside, (Kind::Request, 7), Some(&request::PREFETCH), keys, &rest);
        assert_eq!(inside[HEADER_LEN..], envelope.encode_to_vec());
        let header = crate::Header::decode(inside.first_chunk().expect("there is a header"));
        let body_len = header.map(|header| header.body_len as usize);
        assert_eq!(body_len, Ok(inside.len() - HEADER_LEN), "its key has two bytes");
    }

    #[test]
    #[should_panic(expected = "the caller keeps the limits")]
    fn a_body_over_the_limit_is_never_sent() {
        let key = "k".repeat(MAX_FRAME_BODY_BYTES as usize);
        let rest = proto::ExistKeyRequest::default();
        append_keyed(&mut Vec::new(), (Kind::Request, 7), None, [&*key].into_iter(), &rest);
    }
}
