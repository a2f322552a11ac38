//! Programs of other versions. `protocol_3.txt` has the frames of the first program that spoke protocol 3, and `protocol_2.txt` the
//! handshake of the last that spoke protocol 2. Both files stay as they are: docs/releasing.md has the rules.

use mooncake_types::ErrorCode;
use mooncake_wire::{DecodeError, Expected, Kind, PROTOCOL_VERSION};

use crate::body::Body;
use crate::frame::{Frame, decode, split};
use crate::sample;

const PROTOCOL_3: &str = include_str!("protocol_3.txt");
const PROTOCOL_2: &str = include_str!("protocol_2.txt");
/// A field that no message has.
const NEW_FIELD: u64 = 1 << 20;

/// The named frames of a file.
fn recorded(text: &str) -> impl Iterator<Item = (&str, Vec<u8>)> {
    text.lines().map(|line| {
        let (name, hex) = line.rsplit_once(": ").expect("a name and bytes");
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        (name, (0..hex.len()).step_by(2).map(byte).collect())
    })
}

fn bytes_of(text: &str, name: &str) -> Vec<u8> {
    recorded(text).find(|(found, _)| *found == name).expect("a recorded frame").1
}

#[test]
fn each_frame_of_the_first_program_of_this_protocol_is_understood() {
    assert_eq!(
        PROTOCOL_VERSION, 3,
        "the first frames of a new protocol go into a file of their own"
    );
    let mut understood = 0;
    for (name, bytes) in recorded(PROTOCOL_3) {
        let (header, body) = split(&bytes);
        let again = decode(header.kind, body, |frame| frame.encode(header.request_id));
        assert!(again.is_ok(), "{name}: {again:?}");
        understood += 1;
    }
    assert_eq!(understood, 136);
}

#[test]
fn fields_of_later_programs_of_this_protocol_are_skipped() {
    for (name, sample) in sample::all() {
        let bytes = sample.encode(7);
        let (header, body) = split(&bytes);
        let longer = Body(body.to_vec()).varint(NEW_FIELD, u64::MAX).0;
        let seen = decode(header.kind, &longer, |frame| assert_eq!(frame, sample, "{name}"));
        assert_eq!(seen, Ok(()), "{name}");
    }
}

#[test]
fn a_request_of_a_later_program_that_this_one_lacks_is_refused() {
    let unknown = Body::default().message(NEW_FIELD, Body::default());
    let seen = decode(Kind::Request, &unknown.0, |frame| format!("{frame:?}"));
    assert!(matches!(seen, Err(DecodeError::Missing { .. })), "{seen:?}");
}

#[test]
fn a_program_of_the_protocol_before_is_refused_in_words_that_it_understands() {
    for name in ["hello", "hello, no secrets"] {
        let bytes = bytes_of(PROTOCOL_2, name);
        let (header, body) = split(&bytes);
        let hello = decode(header.kind, body, |frame| match frame {
            Frame::Hello(hello) => hello,
            other => panic!("no hello: {other:?}"),
        });
        let hello = hello.expect("the version is field 1 of each protocol");
        assert_eq!(hello.protocol_version, 2);
        let expected = Expected { cluster_id: "", auth_token: "", roles: &[] };
        let refusal = hello.check(&expected).expect_err("another protocol");
        assert_eq!(refusal.code, ErrorCode::InvalidVersion);
        let named = "the server speaks protocol version 3, the client 2";
        assert_eq!(refusal.message, named);
    }
    // A refusal has the bytes that it had.
    assert_eq!(bytes_of(PROTOCOL_2, "refusal"), bytes_of(include_str!("golden.txt"), "refusal"));
}

#[test]
fn a_server_of_the_protocol_before_is_told_from_one_of_this() {
    let bytes = bytes_of(PROTOCOL_2, "welcome");
    let (header, body) = split(&bytes);
    let version = decode(header.kind, body, |frame| match frame {
        Frame::Welcome(welcome) => welcome.protocol_version,
        other => panic!("no welcome: {other:?}"),
    });
    assert_eq!(version, Ok(2));
}
