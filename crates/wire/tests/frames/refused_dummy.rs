//! Frames of dummy clients with one fault each, and the error for each.

use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_DUMMY_PIECES, MAX_FRAME_BODY_BYTES};
use mooncake_types::{DummyReply, DummyRequest, ErrorCode, Located};
use mooncake_wire::{DecodeError, Kind};

use crate::body::Body;
use crate::frame::{Frame, decode};

fn request(body: Body, expected: DecodeError) {
    let found = decode(Kind::DummyRequest, &body.0, |frame| format!("{frame:?}"));
    assert_eq!(found, Err(expected));
}

fn reply(body: Body, expected: DecodeError) {
    let found = decode(Kind::DummyReply, &body.0, |frame| format!("{frame:?}"));
    assert_eq!(found, Err(expected));
}

fn empty() -> Body {
    Body::default()
}

fn too_many(what: &'static str, limit: usize) -> DecodeError {
    DecodeError::TooMany { what, limit }
}

fn length(what: &'static str, expected: usize, found: usize) -> DecodeError {
    DecodeError::Length { what, expected, found }
}

#[test]
fn dummy_lists_that_are_too_long() {
    let keys = || empty().times(MAX_BATCH_KEYS + 1, |body| body.bytes(1, b""));
    for tag in [5, 6, 7, 8, 9, 10, 13] {
        request(empty().message(tag, keys()), too_many("keys", MAX_BATCH_KEYS));
    }
    let pieces = |count| empty().message(2, empty().column32(1, &[count, 1]));
    let keys = || empty().bytes(1, b"a").bytes(1, b"b");
    for tag in [5, 6, 7] {
        for count in [MAX_DUMMY_PIECES as i32, -1] {
            let body = empty().message(tag, Body([keys().0, pieces(count).0].concat()));
            request(body, too_many("pieces", MAX_DUMMY_PIECES));
        }
    }
    let statuses = |count| empty().column32(1, &vec![-1; count]);
    let body = empty().message(5, statuses(MAX_DUMMY_PIECES + 1));
    reply(body, too_many("status_codes", MAX_DUMMY_PIECES));
    let body = empty().message(7, empty().message(1, statuses(MAX_BATCH_KEYS + 1)));
    reply(body, too_many("status_codes", MAX_BATCH_KEYS));
    let twice = empty().message(6, empty()).message(6, empty());
    request(twice, too_many("get", 1));
    let twice = empty().message(6, empty().message(2, empty()).message(2, empty()));
    request(twice, too_many("pieces", 1));
}

#[test]
fn dummy_columns_of_different_lengths() {
    let rows = |maps: &[i32], offsets: &[u64], sizes: &[u64]| {
        let pieces = empty().column32(1, &[2]).column32(2, maps);
        empty().bytes(1, b"key").message(2, pieces.column64(3, offsets).column64(4, sizes))
    };
    for tag in [5, 6, 7] {
        let check = |rows: Body, expected| request(empty().message(tag, rows), expected);
        check(rows(&[0], &[0; 2], &[0; 2]), length("maps", 2, 1));
        check(rows(&[0; 2], &[0; 3], &[0; 2]), length("offsets", 2, 3));
        check(rows(&[0; 2], &[0; 2], &[]), length("sizes", 2, 0));
        let two_keys = Body([empty().bytes(1, b"other").0, rows(&[], &[], &[]).0].concat());
        check(two_keys, length("counts", 2, 1));
    }
    let whole = || rows(&[0; 2], &[0; 2], &[0; 2]);
    request(empty().message(7, whole().column64(3, &[0])), length("value_offsets", 2, 1));
    let put = whole().message(3, empty()).bytes(5, b"").bytes(5, b"");
    request(empty().message(5, put), length("groups", 1, 2));
    request(empty().message(1, empty().bytes(1, &[0; 15])), length("attachment_id", 16, 15));
    let lengths = empty().column32(1, &[0, -1]);
    reply(empty().message(5, lengths.column64(2, &[1; 2])), length("sizes", 1, 2));
    let located = empty().message(1, empty()).column64(2, &[1]);
    reply(empty().message(7, located), length("value_lengths", 0, 1));
}

#[test]
fn dummy_fields_that_are_missing_or_mean_nothing() {
    let missing = |what| DecodeError::Missing { what };
    let nothing = |what, value| DecodeError::OutOfRange { what, value };
    request(empty(), missing("operation"));
    for tag in [5, 6, 7] {
        request(empty().message(tag, empty()), missing("pieces"));
    }
    let put = || empty().message(2, empty());
    request(empty().message(5, put()), missing("config"));
    request(empty().message(5, put().message(3, empty()).varint(4, 2)), nothing("mode", 2));
    request(empty().message(8, empty().bytes(1, b"\xff")), DecodeError::NotUtf8 { index: 0 });
    reply(empty(), missing("result"));
    reply(empty().message(1, empty()), missing("attachment_id"));
    for tag in [7, 9] {
        reply(empty().message(tag, empty()), missing("replica_lists"));
    }
}

#[test]
fn keys_of_dummies_that_the_master_will_refuse_reach_it() {
    let long = "k".repeat(5000);
    let frame = Frame::DummyRequest(DummyRequest::exist(vec!["", &long])).encode(1);
    let found = decode(Kind::DummyRequest, &frame[16..], |found| found.encode(1));
    assert_eq!(found, Ok(frame));
}

#[test]
fn a_list_for_a_dummy_that_fits_no_frame_is_a_refusal() {
    let object = ("k".repeat(4096), Located::default());
    let objects = vec![object; MAX_FRAME_BODY_BYTES as usize / 4096];
    let frame = Frame::DummyReply(DummyReply::Listed { objects, segments: vec![] }).encode(5);
    let refused = DummyReply::Refused(ErrorCode::BufferOverflow);
    assert_eq!(frame, Frame::DummyReply(refused).encode(5));
}
