//! Decodes arbitrary bodies of every kind of frame, and headers. The first byte of the input chooses the kind.
//! Decoding must not panic. An accepted value must decode to itself after it is encoded again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mooncake_wire::{HEADER_LEN, Header, Kind};

#[path = "../../crates/wire/tests/frames/frame.rs"]
mod frame;

fuzz_target!(|input: &[u8]| {
    if let Some((bytes, _)) = input.split_first_chunk::<HEADER_LEN>()
        && let Ok(header) = Header::decode(bytes)
    {
        assert_eq!(header.encode(), *bytes);
    }
    if let Some((&choice, body)) = input.split_first() {
        frame::survive(Kind::ALL[usize::from(choice) % Kind::ALL.len()], body);
    }
});
