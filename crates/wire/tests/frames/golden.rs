use std::fmt::Write;
use std::fs;
use std::path::Path;

use mooncake_wire::Header;

use crate::frame::{decode, split};
use crate::sample;

const REQUEST_ID: u64 = 0x0123_4567_89AB_CDEF;

/// Compares the bytes of every sample with `golden.txt`. A difference changes the protocol: older peers do not
/// understand it, unless it only adds fields. `UPDATE_GOLDEN=1 cargo test -p mooncake-wire` rewrites the file.
#[test]
fn frames_look_as_they_always_did() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frames/golden.txt");
    let text: String = sample::all().into_iter().map(|(name, frame)| line(name, &frame)).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).expect("the source tree is writable");
    }
    let golden = fs::read_to_string(&path).expect("the golden bytes are checked in");
    for (found, expected) in text.lines().zip(golden.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), golden.lines().count());
}

fn line(name: &str, frame: &crate::frame::Frame<'_>) -> String {
    let mut line = format!("{name}: ");
    for byte in frame.encode(REQUEST_ID) {
        write!(line, "{byte:02x}").expect("a string takes what is written");
    }
    line + "\n"
}

#[test]
fn samples_come_back_as_they_were() {
    for (name, sample) in sample::all() {
        let bytes = sample.encode(REQUEST_ID);
        let (header, body) = split(&bytes);
        assert_eq!(Header::decode(&header.encode()), Ok(header));
        assert_eq!((header.flags, header.request_id), (0, REQUEST_ID), "{name}");
        let decoded = decode(header.kind, body, |frame| assert_eq!(frame, sample, "{name}"));
        assert_eq!(decoded, Ok(()), "{name}");
    }
}

/// Encoding appends to the buffer, so frames can follow each other in it.
#[test]
fn encoding_appends() {
    let mut out = b"before".to_vec();
    mooncake_wire::encode_reply(&mut out, 3, &mooncake_types::Reply::Done(Ok(())));
    let (header, body) = split(&out[6..]);
    assert_eq!((&out[..6], header.request_id, body.len()), (&b"before"[..], 3, 2));
}
