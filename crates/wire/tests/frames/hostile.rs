use mooncake_wire::{HEADER_LEN, Header, Kind};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::frame::{decode, split, survive};
use crate::sample;
use crate::seed::runner;

#[test]
fn a_body_that_is_cut_short_is_refused() {
    for (name, sample) in sample::all() {
        let bytes = sample.encode(1);
        let (header, body) = split(&bytes);
        for len in 0..body.len() {
            let Ok(accepted) = decode(header.kind, &body[..len], |frame| frame.encode(1)) else {
                continue;
            };
            // The fields of ways to memory are optional.
            let optional =
                [Kind::Welcome, Kind::ShareReply, Kind::Begun, Kind::Join, Kind::JoinReply];
            if optional.contains(&header.kind) && accepted[HEADER_LEN..] == body[..len] {
                continue;
            }
            // Seals are optional: the node refuses ranges without them.
            if name.starts_with("sealed") && accepted[HEADER_LEN..] == body[..len] {
                continue;
            }
            // Protobuf encodes an empty list as no bytes. The peer that asked knows how many results it needs.
            let lists = [
                Kind::Drop,
                Kind::DropReply,
                Kind::Read,
                Kind::ReadReply,
                Kind::WriteReply,
                Kind::BeginReply,
                Kind::Begun,
                Kind::Complete,
                Kind::CompleteReply,
                Kind::Expose,
                Kind::Pin,
                Kind::PinReply,
                Kind::Unpin,
                Kind::Promise,
                Kind::PromiseReply,
            ];
            assert!(len == 0 && lists.contains(&header.kind), "{name}, cut to {len} bytes");
            assert_eq!(accepted.len(), HEADER_LEN, "{name}, cut to {len} bytes");
        }
    }
}

#[test]
fn a_header_that_is_cut_short_begins_nothing() {
    for (name, sample) in sample::all() {
        let bytes = sample.encode(0);
        for len in 1..HEADER_LEN {
            // The bytes that a reader would see that took zeros for the missing part.
            let mut padded = [0; HEADER_LEN];
            padded[..len].copy_from_slice(&bytes[..len]);
            let (sent, _) = split(&bytes);
            match Header::decode(&padded) {
                Err(_) => assert!(len < 3, "{name}, cut to {len} bytes"),
                Ok(header) => {
                    assert_eq!((header.kind, header.request_id), (sent.kind, 0), "{name}");
                }
            }
        }
    }
}

#[test]
fn no_flipped_bit_does_harm() {
    for (name, sample) in sample::all() {
        let bytes = sample.encode(1);
        let (sent, _) = split(&bytes);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (header, body) = flipped.split_first_chunk().expect("a frame has a header");
            match Header::decode(header) {
                Ok(header) => {
                    assert_eq!(header == sent, bit / 8 >= HEADER_LEN, "{name}, bit {bit}");
                    survive(header.kind, body);
                }
                Err(_) => assert!(bit / 8 < HEADER_LEN, "{name}, bit {bit}"),
            }
        }
    }
}

#[test]
fn random_bytes_do_no_harm() {
    let cases = (select(Kind::ALL), vec(any::<u8>(), 0..300));
    runner(20_000)
        .run(&cases, |(kind, body)| {
            survive(kind, &body);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn random_headers_do_no_harm() {
    runner(20_000)
        .run(&any::<[u8; HEADER_LEN]>(), |bytes| {
            // Random bytes rarely have the right magic number, so each case is repeated with it.
            let mut likely = bytes;
            likely[..3].copy_from_slice(&[
                0x4B,
                0x4D,
                Kind::ALL[bytes[2] as usize % Kind::ALL.len()] as u8,
            ]);
            for bytes in [bytes, likely] {
                if let Ok(header) = Header::decode(&bytes) {
                    prop_assert_eq!(header.encode(), bytes);
                    prop_assert!(header.body_len <= header.kind.max_body_bytes());
                }
            }
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Nearly valid bytes get further than random ones: samples with a few changed bytes or a moved piece, under any kind.
#[test]
fn damaged_frames_do_no_harm() {
    let samples: Vec<Vec<u8>> = sample::all().iter().map(|(_, frame)| frame.encode(1)).collect();
    let cases = (
        select(samples),
        proptest::option::weighted(0.1, select(Kind::ALL)),
        vec((any::<Index>(), any::<u8>()), 0..5),
        proptest::option::of((any::<Index>(), any::<Index>(), any::<Index>())),
    );
    runner(40_000)
        .run(&cases, |(bytes, kind, changes, moved)| {
            let (header, body) = split(&bytes);
            let mut body = body.to_vec();
            if !body.is_empty() {
                for (at, byte) in changes {
                    let at = at.index(body.len());
                    body[at] = byte;
                }
                if let Some((from, to, at)) = moved {
                    let (from, to) = (from.index(body.len()), to.index(body.len()));
                    let piece = body[from.min(to)..from.max(to)].to_vec();
                    let at = at.index(body.len());
                    body.splice(at..at, piece);
                }
            }
            survive(kind.unwrap_or(header.kind), &body);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
