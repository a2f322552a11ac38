//! Bodies with one fault each, and the error for each.

use mooncake_types::limits::{
    MAX_BATCH_KEYS, MAX_BEGIN_RANGES, MAX_DOMAINS, MAX_FETCHED_TASKS, MAX_FRAME_RANGES,
    MAX_GROUP_BYTES, MAX_REMOTE_MEMORY_BYTES, MAX_REPLICAS, MAX_SCAN_OBJECTS, MAX_SEGMENTS,
    MAX_TASK_MESSAGE_BYTES, MAX_TRANSPORT_ADDRESS_BYTES, MAX_TRANSPORT_NAME_BYTES, MAX_TRANSPORTS,
};
use mooncake_types::{ErrorCode, PutItem, PutStart, Reply, Request};
use mooncake_wire::{DecodeError, Kind, PROTOCOL_VERSION};

use crate::body::Body;
use crate::frame::{Frame, decode};

const ID: &[u8] = &[7; 16];

fn check(kind: Kind, body: Body, expected: DecodeError) {
    let found = decode(kind, &body.0, |frame| format!("{frame:?}"));
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

fn missing(what: &'static str) -> DecodeError {
    DecodeError::Missing { what }
}

fn out_of_range(what: &'static str, value: i64) -> DecodeError {
    DecodeError::OutOfRange { what, value }
}

/// A found object with one range, in these columns.
fn lists(replica: i32, segment: i32) -> Body {
    empty()
        .column32(1, &[0])
        .column64(2, &[1, 1])
        .column32(3, &[1])
        .column32(4, &[replica])
        .column32(5, &[segment])
        .column64(6, &[0])
        .column64(7, &[1])
        .message(8, empty().bytes(1, ID))
}

#[test]
fn bodies_that_are_not_protobuf() {
    let key_of_ten_bytes = Body(vec![0xFF; 10]);
    let group = Body(vec![8 << 3 | 3, 8 << 3 | 4]);
    let huge_length =
        Body(vec![8 << 3 | 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]);
    let inner = empty().message(8, Body(vec![1 << 3 | 2, 5, b'a']));
    for (body, at) in [
        (key_of_ten_bytes, 0),
        (group, 0),
        (huge_length, 0),
        (Body(vec![0x52, 2, 0]), 0),
        (inner, 2),
    ] {
        check(Kind::Request, body.clone(), DecodeError::Malformed { at });
    }
    check(
        Kind::Write,
        empty().bytes(1, b"a").varint(8, 1).cut(1),
        DecodeError::Malformed { at: 3 },
    );
}

#[test]
fn bodies_of_another_schema() {
    let wrong_type = empty().message(8, empty().varint(1, 5));
    let not_text = empty().message(2, empty().bytes(2, b"\xFF"));
    let odd_column = empty().message(4, empty().bytes(1, b"k").bytes(2, &[0; 7]));
    for body in [wrong_type, not_text, odd_column] {
        let found = decode(Kind::Request, &body.0, |frame| format!("{frame:?}"));
        assert!(matches!(found, Err(DecodeError::Schema(_))), "{found:?}");
    }
}

#[test]
fn lists_that_are_too_long() {
    let keys = |count| empty().times(count, |body| body.bytes(1, b""));
    for tag in [4, 5, 6, 7, 8, 9, 11] {
        let body = empty().message(tag, keys(MAX_BATCH_KEYS + 1));
        check(Kind::Request, body, too_many("keys", MAX_BATCH_KEYS));
    }
    let names = empty().times(MAX_SEGMENTS + 1, |body| body.bytes(5, b""));
    let put = empty().message(4, empty().message(3, names));
    check(Kind::Request, put, too_many("preferred_segments", MAX_SEGMENTS));
    let groups = empty().times(MAX_BATCH_KEYS + 1, |body| body.bytes(5, b""));
    check(Kind::Request, empty().message(4, groups), too_many("groups", MAX_BATCH_KEYS));
    let names = empty().times(MAX_SEGMENTS + 1, |body| body.bytes(4, b""));
    check(Kind::Request, empty().message(12, names), too_many("target_segments", MAX_SEGMENTS));
    let domains = empty().times(MAX_DOMAINS + 1, |body| body.bytes(9, b"a=b"));
    check(Kind::Request, empty().message(2, domains), too_many("domains", MAX_DOMAINS));
    let ids = vec![0; (MAX_SEGMENTS + 1) * 16];
    let ping = empty().message(1, empty().bytes(1, &ids));
    check(Kind::Request, ping, too_many("segment_ids", MAX_SEGMENTS));
    let ping = empty().message(1, empty().bytes(2, &ids));
    check(Kind::Request, ping, too_many("unreachable_segment_ids", MAX_SEGMENTS));

    let segments = empty().times(MAX_SEGMENTS + 1, |body| body.bytes(8, b""));
    for (tag, lists) in [(3, 1), (5, 1), (7, 2), (11, 3)] {
        let body = empty().message(tag, empty().message(lists, segments.clone()));
        check(Kind::Reply, body, too_many("segments", MAX_SEGMENTS));
    }
    let statuses = empty().column32(1, &vec![-1; MAX_BATCH_KEYS + 1]);
    for tag in [3, 5] {
        let body = empty().message(tag, empty().message(1, statuses.clone()));
        check(Kind::Reply, body, too_many("status_codes", MAX_BATCH_KEYS));
    }
    let list = empty().bytes(1, &[1; MAX_BATCH_KEYS + 1]);
    check(Kind::Reply, empty().message(4, list.clone()), too_many("status_codes", MAX_BATCH_KEYS));
    check(Kind::Reply, empty().message(6, list.clone()), too_many("exists", MAX_BATCH_KEYS));
    check(Kind::Reply, empty().message(17, list), too_many("in_memory", MAX_BATCH_KEYS));
    let limit = MAX_SCAN_OBJECTS as usize;
    check(Kind::Reply, empty().message(7, keys(limit + 1)), too_many("keys", limit));
    let limit = MAX_FETCHED_TASKS as usize;
    check(Kind::Reply, empty().message(11, keys(limit + 1)), too_many("keys", limit));
    let limit = MAX_TASK_MESSAGE_BYTES;
    let report = empty().bytes(7, "m".repeat(limit + 1).as_bytes());
    check(Kind::Reply, empty().message(10, report), too_many("message", limit));
    let listed = empty().bytes(4, "m".repeat(limit + 1).as_bytes());
    check(Kind::Reply, empty().message(16, listed), too_many("put_obstacle", limit));

    let limit = MAX_FRAME_RANGES;
    check(Kind::Write, keys(limit + 1), too_many("keys", limit));
    check(Kind::Read, empty().column64(2, &vec![0; limit + 1]), too_many("offsets", limit));
    let list = empty().bytes(1, &vec![1; limit + 1]);
    check(Kind::ReadReply, list.clone(), too_many("status_codes", limit));
    check(Kind::WriteReply, list.clone(), too_many("status_codes", limit));
    for kind in [Kind::BeginReply, Kind::Complete, Kind::CompleteReply] {
        check(kind, list.clone(), too_many("status_codes", limit));
    }
    check(Kind::Begin, keys(limit + 1), too_many("keys", limit));
    check(Kind::Pin, empty().column64(2, &vec![0; limit + 1]), too_many("offsets", limit));
    check(Kind::PinReply, list.clone(), too_many("status_codes", limit));
    check(Kind::Promise, empty().column64(2, &vec![0; limit + 1]), too_many("offsets", limit));
    check(Kind::PromiseReply, list, too_many("status_codes", limit));
    check(Kind::Unpin, empty().column64(1, &vec![0; limit + 1]), too_many("pins", limit));
}

#[test]
fn descriptions_of_ways_to_memory_that_are_too_long() {
    check(Kind::Begun, empty().bytes(1, &[0; 8]), length("remote_memories", 2, 0));
    let memories = empty().times(MAX_BEGIN_RANGES + 1, |body| body.bytes(2, b""));
    check(Kind::Begun, memories, too_many("remote_memories", MAX_BEGIN_RANGES));
    let offers = empty().times(MAX_TRANSPORTS + 1, |body| body.message(6, empty()));
    check(Kind::Welcome, offers, too_many("transports", MAX_TRANSPORTS));
    for (number, what, most) in
        [(1, "kind", MAX_TRANSPORT_NAME_BYTES), (2, "address", MAX_TRANSPORT_ADDRESS_BYTES)]
    {
        let long = empty().bytes(number, &vec![b'a'; most + 1]);
        check(Kind::Welcome, empty().fixed64(3, 7).message(6, long), too_many(what, most));
    }
    let long = vec![0; MAX_TRANSPORT_ADDRESS_BYTES + 1];
    let refused = too_many("address", MAX_TRANSPORT_ADDRESS_BYTES);
    check(Kind::Join, empty().bytes(1, &long), refused.clone());
    check(Kind::JoinReply, empty().varint(1, 0).bytes(2, &long), refused);
    let most = MAX_REMOTE_MEMORY_BYTES;
    for (number, what) in [(5, "remote_memory"), (6, "remote_slots")] {
        let long = empty().varint(4, 0).bytes(number, &vec![0; most + 1]);
        check(Kind::ShareReply, long, too_many(what, most));
    }
}

/// Protobuf merges a repeated sub-message, so its lists could exceed their limits.
#[test]
fn messages_that_stand_twice() {
    let keys = empty().times(MAX_BATCH_KEYS, |body| body.bytes(1, b""));
    let twice = empty().message(8, keys.clone()).message(8, keys);
    check(Kind::Request, twice, too_many("exist_key", 1));
    let twice = empty().message(5, empty().message(1, lists(0, 0)).message(1, lists(0, 0)));
    check(Kind::Reply, twice, too_many("replica_lists", 1));
    let twice = empty().message(9, empty()).message(9, empty());
    check(Kind::Write, twice, too_many("parts", 1));
}

#[test]
fn fields_that_are_missing() {
    check(Kind::Request, empty(), missing("operation"));
    check(Kind::Request, empty().message(99, empty()), missing("operation"));
    check(Kind::Request, empty().message(4, empty()), missing("config"));
    check(Kind::Request, empty().message(2, empty()), missing("segment_id"));
    check(Kind::Request, empty().message(3, empty()), missing("segment_id"));
    check(Kind::Reply, empty(), missing("result"));
    for tag in [3, 5, 7, 11] {
        check(Kind::Reply, empty().message(tag, empty()), missing("replica_lists"));
    }
    for tag in [13, 15] {
        check(Kind::Request, empty().message(tag, empty()), missing("task_id"));
    }
    for tag in [9, 10] {
        check(Kind::Reply, empty().message(tag, empty()), missing("task_id"));
    }
    let idle = empty().message(10, empty().bytes(1, ID));
    check(Kind::Reply, idle, missing("assigned_client_id"));
    let nameless = empty().message(8, empty());
    check(Kind::Reply, empty().message(3, empty().message(1, nameless)), missing("segment_id"));
    check(Kind::Hello, empty(), missing("protocol_version"));
    check(
        Kind::Hello,
        empty().varint(1, PROTOCOL_VERSION.into()).varint(3, 1),
        missing("client_id"),
    );
    check(Kind::Welcome, empty().varint(1, 1), missing("epoch"));
    check(Kind::Refusal, empty().bytes(1, b"why"), missing("status_code"));
    check(Kind::Write, empty(), missing("epoch"));
    check(Kind::Begin, empty(), missing("epoch"));
    check(Kind::Share, empty(), missing("segment_id"));
    check(Kind::ShareReply, empty(), missing("status_code"));
    check(Kind::JoinReply, empty(), missing("status_code"));
    let nowhere = empty().varint(1, 1).fixed64(3, 7).message(4, empty());
    check(Kind::Welcome, nowhere, missing("instance"));
}

#[test]
fn columns_of_different_lengths() {
    let request = |tag, rest: Body| {
        let keys = empty().bytes(1, b"a").bytes(1, b"b");
        empty().message(tag, Body([keys.0, rest.0].concat()))
    };
    let cases = [
        (4, empty().column64(2, &[1]).message(3, empty()), length("value_lengths", 2, 1)),
        (
            4,
            empty().column64(2, &[1; 2]).message(3, empty()).bytes(5, b"g"),
            length("groups", 2, 1),
        ),
        (5, empty().column64(2, &[1; 3]), length("versions", 4, 3)),
        (5, empty().column64(2, &[1; 4]).bytes(3, &[0]), length("failed_replicas", 2, 1)),
        (
            5,
            empty().column64(2, &[1; 4]).bytes(3, &[0, 0]).bytes(4, &[1]),
            length("held_replicas", 2, 1),
        ),
        (6, empty().column64(2, &[1; 4]).bytes(3, &[1]), length("held_replicas", 2, 1)),
        (6, empty().column64(2, &[1; 5]), length("versions", 4, 5)),
        (7, empty().bytes(2, &[3]), length("uses", 2, 1)),
    ];
    for (tag, rest, expected) in cases {
        check(Kind::Request, request(tag, rest), expected);
    }
    let ping = empty().message(1, empty().bytes(1, &[0; 17]));
    check(Kind::Request, ping, length("segment_ids", 16, 17));
    let ping = empty().message(1, empty().bytes(2, &[0; 15]));
    check(Kind::Request, ping, length("unreachable_segment_ids", 0, 15));
    let mount = empty().message(2, empty().bytes(1, &[0; 15]));
    check(Kind::Request, mount, length("segment_id", 16, 15));
    check(
        Kind::Hello,
        empty().varint(1, PROTOCOL_VERSION.into()).varint(3, 1).bytes(5, &[0]),
        length("client_id", 16, 1),
    );
}

#[test]
fn columns_of_different_lengths_in_data_frames() {
    let row = |column: u64| -> Body {
        let all = [(2, &[1][..]), (3, &[1, 1]), (4, &[1]), (5, &[1])];
        let body = if column == 1 { empty() } else { empty().bytes(1, ID) };
        let kept = all.iter().filter(|(tag, _)| *tag != column);
        kept.fold(body, |body, (tag, numbers)| body.column64(*tag, numbers))
    };
    check(Kind::Read, row(1), length("segment_ids", 16, 0));
    check(Kind::Read, row(2), length("segment_ids", 0, 16));
    check(Kind::Read, row(3), length("versions", 2, 0));
    check(Kind::Read, row(4), length("starts", 1, 0));
    check(Kind::Read, row(5), length("sizes", 1, 0));

    let names = ["segment_ids", "offsets", "sizes", "versions", "value_lengths", "value_offsets"];
    let lens = [16, 1, 1, 2, 1, 1];
    for ((column, what), expected) in (2..).zip(names).zip(lens) {
        let mut body = empty().bytes(1, b"key").fixed64(8, 1);
        for (tag, len) in (2..8).zip(lens).filter(|(tag, _)| *tag != column) {
            body = if tag == 2 { body.bytes(2, ID) } else { body.column64(tag, &vec![1; len]) };
        }
        check(Kind::Write, body, length(what, expected, 0));
    }
}

/// A frame of parts has other columns than a frame of whole ranges. A frame of parts that is cut off between two
/// fields must not pass for a frame of whole ranges.
#[test]
fn columns_of_different_lengths_in_parts() {
    let rest = |sizes: &[u64]| {
        let body = empty().bytes(1, b"key").bytes(2, ID).column64(3, &[1]).column64(4, sizes);
        body.column64(5, &[1; 2]).column64(6, &[1]).column64(7, &[1]).fixed64(8, 1)
    };
    let parts = |[ranges, starts, sizes, grants]: [usize; 4]| {
        let column = |len| vec![1; len];
        let body = empty().column64(1, &column(ranges)).column64(2, &column(starts));
        body.column64(3, &column(sizes)).column64(4, &column(grants))
    };
    let whole = parts([1, 1, 1, 2]);
    let accepted = decode(Kind::Write, &rest(&[]).message(9, whole.clone()).0, |_| ());
    assert_eq!(accepted, Ok(()));
    for (body, expected) in [
        (rest(&[]), length("sizes", 1, 0)),
        (rest(&[1]).message(9, whole), length("sizes", 0, 1)),
        (rest(&[]).message(9, parts([0, 1, 1, 2])), length("range_sizes", 1, 0)),
        (rest(&[]).message(9, parts([1, 2, 1, 2])), length("starts", 1, 2)),
        (rest(&[]).message(9, parts([1, 1, 0, 2])), length("sizes", 1, 0)),
        (rest(&[]).message(9, parts([1, 1, 1, 3])), length("grants", 2, 3)),
    ] {
        check(Kind::Write, body, expected);
    }
}

#[test]
fn tasks_that_do_not_add_up() {
    let lists = |statuses: &[i32]| {
        let found = statuses.iter().filter(|&&number| number == 0).count();
        let lists = empty().column32(1, statuses).column64(2, &vec![1; 2 * found]);
        lists.column32(3, &vec![0; found])
    };
    let tasks = |ids: &[u8], statuses: &[i32], lens: &[u64]| {
        let body = empty().bytes(1, b"key").bytes(2, ids);
        empty().message(11, body.message(3, lists(statuses)).column64(4, lens))
    };
    assert_eq!(decode(Kind::Reply, &tasks(ID, &[0, 0], &[1]).0, |_| ()), Ok(()));
    for (body, expected) in [
        (tasks(&[0; 15], &[0, 0], &[1]), length("task_ids", 16, 15)),
        (tasks(ID, &[0], &[1]), length("status_codes", 2, 1)),
        (tasks(ID, &[0, -704], &[1]), out_of_range("status_codes", -704)),
        (tasks(ID, &[0, 0], &[]), length("value_lengths", 1, 0)),
    ] {
        check(Kind::Reply, body, expected);
    }
}

#[test]
fn replica_lists_that_do_not_add_up() {
    let granted = |lists: Body| empty().message(3, empty().message(1, lists));
    let found = || empty().column32(1, &[0, -704, 0]);
    let counted = || found().column64(2, &[1; 4]).column32(3, &[1, 2]);
    let cases = [
        (found(), length("handle_counts", 2, 0)),
        (found().column32(3, &[0, 0]).column64(2, &[1; 3]), length("versions", 4, 3)),
        (counted().column32(4, &[0; 2]), length("handle_replicas", 3, 2)),
        (counted().column32(4, &[0; 3]), length("handle_segments", 3, 0)),
        (counted().column32(4, &[0; 3]).column32(5, &[0; 3]), length("handle_offsets", 3, 0)),
        (found().column32(3, &[-1, -1]), length("handle_replicas", 2 * 0xFFFF_FFFF, 0)),
        (lists(MAX_REPLICAS as i32, 0), out_of_range("handle_replicas", 32)),
        (lists(0, 1), out_of_range("handle_segments", 1)),
        (lists(0, -1), out_of_range("handle_segments", 0xFFFF_FFFF)),
    ];
    for (lists, expected) in cases {
        check(Kind::Reply, granted(lists), expected);
    }
    let located = empty().message(5, empty().message(1, lists(0, 0)));
    check(Kind::Reply, located, length("value_lengths", 1, 0));
    let after = |older| {
        let lists = empty().message(1, lists(0, 0)).column64(2, &[1]);
        empty().message(5, lists.message(5, older))
    };
    let ranges = || empty().column64(3, &[0]).column64(4, &[1, 1]).column64(5, &[1, 1]);
    let cases = [
        (ranges(), length("keys", 1, 0)),
        (ranges().column32(1, &[1]).column32(2, &[0]), out_of_range("keys", 1)),
        (ranges().column32(1, &[0]), length("range_segments", 1, 0)),
        (ranges().column32(1, &[0]).column32(2, &[1]), out_of_range("range_segments", 1)),
    ];
    for (older, expected) in cases {
        check(Kind::Reply, after(older), expected);
    }
    let keyless = empty().message(7, empty().message(2, lists(0, 0)).column64(3, &[1]));
    check(Kind::Reply, keyless, length("status_codes", 0, 1));
    let lost = empty().bytes(1, b"k").message(2, empty().column32(1, &[-704]));
    check(Kind::Reply, empty().message(7, lost), out_of_range("status_codes", -704));
    let exist = empty().message(6, empty().bytes(1, &[0, 2, 2]).bytes(2, &[1]));
    check(Kind::Reply, exist, length("status_codes", 2, 1));
    let prefetched = empty().message(17, empty().bytes(1, &[2, 0, 2]).bytes(2, &[1]));
    check(Kind::Reply, prefetched, length("status_codes", 2, 1));
}

#[test]
fn keys_that_are_not_text() {
    let keys = empty().bytes(1, b"good").bytes(1, b"\xC3\x28");
    check(Kind::Request, empty().message(8, keys), DecodeError::NotUtf8 { index: 1 });
    let half = empty().bytes(1, "ä".as_bytes()).cut(1);
    check(Kind::Request, empty().message(8, half), DecodeError::Malformed { at: 2 });
    let key = empty().message(12, empty().bytes(1, b"\xFF"));
    check(Kind::Request, key, DecodeError::NotUtf8 { index: 0 });
    let put = empty().bytes(1, b"k").column64(2, &[1]).message(3, empty());
    let put = empty().message(4, put.bytes(5, b"\xFF"));
    check(Kind::Request, put, DecodeError::LabelNotUtf8);
    let put = empty().bytes(1, b"k").column64(2, &[1]).message(3, empty());
    let put = empty().message(4, put.bytes(6, b"\xFF"));
    check(Kind::Request, put, DecodeError::LabelNotUtf8);
}

#[test]
fn numbers_that_mean_nothing() {
    let config = |body| empty().message(4, empty().message(3, body));
    check(Kind::Request, config(empty().varint(2, 4)), out_of_range("soft_pin_action", 4));
    check(Kind::Request, config(empty().varint(7, 256)), out_of_range("data_type", 256));
    for action in [0, 4] {
        let body = empty().message(10, empty().varint(2, action as u64));
        check(Kind::Request, body, out_of_range("action", action));
    }
    let put = empty().message(4, empty().message(3, empty()).varint(4, 2));
    check(Kind::Request, put, out_of_range("mode", 2));
    let mount = empty().message(2, empty().bytes(1, ID).varint(8, 4));
    check(Kind::Request, mount, out_of_range("medium", 4));
    check(Kind::Request, empty().message(12, empty().varint(2, 2)), out_of_range("kind", 2));
    let report = || empty().bytes(1, ID).bytes(6, ID);
    check(Kind::Reply, empty().message(10, report().varint(2, 2)), out_of_range("kind", 2));
    check(Kind::Reply, empty().message(10, report().varint(3, 4)), out_of_range("status", 4));
    for role in [0, 3] {
        let body = empty().varint(1, PROTOCOL_VERSION.into()).varint(3, role as u64).bytes(5, ID);
        check(Kind::Hello, body, out_of_range("role", role));
    }
    check(Kind::Reply, empty().message(6, empty().bytes(1, &[3])), out_of_range("exists", 3));
    check(Kind::Reply, empty().message(17, empty().bytes(1, &[3])), out_of_range("in_memory", 3));
}

/// A newer peer may know more error codes and more fields.
#[test]
fn what_a_newer_peer_may_send_is_accepted() {
    let accept = |kind, body: Body, expected: Frame<'_>| {
        assert_eq!(decode(kind, &body.0, |found| assert_eq!(found, expected)), Ok(()));
    };
    let unknown = empty().message(2, empty().varint(1, 9999 * 2 - 1));
    let internal = ErrorCode::InternalError;
    accept(Kind::Reply, unknown, Frame::Reply(Reply::Done(Err(internal))));
    let fields = empty().message(9, empty().bytes(1, b"k").varint(100, 1).fixed64(101, 1));
    let remove = Request::Remove { keys: vec!["k"], force: false };
    accept(Kind::Request, fields.bytes(200, b"?"), Frame::Request(remove));
}

#[test]
fn keys_that_the_master_will_refuse_reach_it() {
    let long = "k".repeat(5000);
    let request = Request::exist(vec!["", &long]);
    let frame = Frame::Request(request).encode(1);
    let found = decode(Kind::Request, &frame[16..], |found| found.encode(1));
    assert_eq!(found, Ok(frame));
    let group = "g".repeat(MAX_GROUP_BYTES + 1);
    let puts = vec![PutItem { group: &group, ..PutItem::new("k", 1) }];
    let frame = Frame::Request(Request::PutStart(PutStart { puts, ..PutStart::default() }));
    let frame = frame.encode(1);
    let found = decode(Kind::Request, &frame[16..], |found| found.encode(1));
    assert_eq!(found, Ok(frame));
}

#[test]
fn a_reply_that_fits_no_frame_is_a_refusal() {
    let objects = vec![("k".repeat(4096), Default::default()); 9000];
    let page = mooncake_types::ScanPage { objects, ..Default::default() };
    let frame = Frame::Reply(Reply::Scanned(page)).encode(5);
    assert_eq!(frame, Frame::Reply(Reply::Refused(ErrorCode::BufferOverflow)).encode(5));
}

#[test]
fn seals_that_are_not_one_for_each_range() {
    let two = [1, 2];
    let at = || empty().bytes(1, ID).column64(2, &[0]).column64(3, &[1, 1]);
    let read = at().column64(4, &[0]).column64(5, &[1]).column64(7, &two);
    check(Kind::Read, read, length("seals", 1, 2));
    check(Kind::Drop, at().column64(4, &[1, 1]).column64(5, &two), length("seals", 1, 2));
    let write = empty().bytes(1, b"key").bytes(2, ID).column64(3, &[0]).column64(4, &[1]);
    let write = write.column64(5, &[1, 1]).column64(6, &[1]).column64(7, &[0]).fixed64(8, 1);
    assert_eq!(decode(Kind::Write, &write.0, |_| ()), Ok(()));
    check(Kind::Write, write.column64(10, &two), length("seals", 1, 2));
    let granted = |lists: Body, rest: Body| {
        let mut granted = empty().message(1, lists);
        granted.0.extend(rest.0);
        empty().message(3, granted)
    };
    let handles = granted(lists(0, 0).column64(9, &two), empty());
    check(Kind::Reply, handles, length("handle_seals", 1, 2));
    let drops = granted(lists(0, 0), empty().column64(3, &two));
    check(Kind::Reply, drops, length("drop_seals", 1, 2));
    let mount = empty().message(2, empty().bytes(1, ID).bytes(10, &[0; 15]));
    check(Kind::Request, mount, length("seal_key", 16, 15));
}
