//! As `refused`, for the messages of recovery.

use mooncake_types::limits::{
    MAX_ATTRIBUTES_BYTES, MAX_BATCH_KEYS, MAX_FETCHED_DROPS, MAX_FRAME_RANGES,
    MAX_INVENTORY_PAGE_ENTRIES, MAX_LISTED_SEGMENTS,
};
use mooncake_wire::{DecodeError, Kind};

use crate::body::Body;
use crate::frame::decode;

const ID: &[u8] = &[7; 16];

fn check(kind: Kind, body: Body, expected: Result<(), DecodeError>) {
    let found = decode(kind, &body.0, |_| ());
    assert_eq!(found, expected);
}

fn empty() -> Body {
    Body::default()
}

fn length(what: &'static str, expected: usize, found: usize) -> Result<(), DecodeError> {
    Err(DecodeError::Length { what, expected, found })
}

fn too_many(what: &'static str, limit: usize) -> Result<(), DecodeError> {
    Err(DecodeError::TooMany { what, limit })
}

/// A page of two entries with the keys `a` and `ä`. The entries of `columns` replace columns of the page.
fn page(columns: &[(u64, Body)]) -> Body {
    let all = [
        (4, empty().bytes(4, "aä".as_bytes())),
        (5, empty().column32(5, &[1, 2])),
        (6, empty().column64(6, &[0, 10])),
        (7, empty().column64(7, &[1, 1])),
        (8, empty().column64(8, &[1; 4])),
        (12, empty().bytes(12, &[0, 1])),
    ];
    let of = |tag: &u64| columns.iter().find(|(other, _)| other == tag).map(|(_, body)| body);
    let mut body = empty().bytes(1, ID);
    for (tag, right) in &all {
        body.0.extend_from_slice(&of(tag).unwrap_or(right).0);
    }
    for (_, further) in columns.iter().filter(|(tag, _)| all.iter().all(|(known, _)| known != tag))
    {
        body.0.extend_from_slice(&further.0);
    }
    empty().message(18, body)
}

#[test]
fn pages_of_inventories_that_do_not_add_up() {
    let limit = MAX_INVENTORY_PAGE_ENTRIES;
    let most = empty().column64(6, &vec![0; limit + 1]);
    let long = MAX_ATTRIBUTES_BYTES + 1;
    let cases = [
        (vec![], Ok(())),
        (vec![(6, most)], too_many("offsets", limit)),
        (vec![(7, empty())], length("sizes", 2, 0)),
        (vec![(8, empty().column64(8, &[1; 3]))], length("versions", 4, 3)),
        (vec![(9, empty().column64(9, &[1; 2]))], length("grants", 4, 2)),
        (vec![(10, empty().column64(10, &[1; 3]))], length("value_lengths", 2, 3)),
        (vec![(11, empty().column64(11, &[1]))], length("value_offsets", 2, 1)),
        (vec![(12, empty().bytes(12, &[0]))], length("states", 2, 1)),
        (
            vec![(12, empty().bytes(12, &[0, 2]))],
            Err(DecodeError::OutOfRange { what: "states", value: 2 }),
        ),
        (vec![(5, empty().column32(5, &[1]))], length("key_lengths", 2, 1)),
        (vec![(5, empty().column32(5, &[1, 3]))], length("keys", 4, 3)),
        (vec![(5, empty().column32(5, &[-1, -1]))], length("keys", 2 * 0xFFFF_FFFF, 3)),
        (vec![(5, empty().column32(5, &[2, 1]))], Err(DecodeError::NotUtf8 { index: 0 })),
        (vec![(4, empty().bytes(4, b"a\xFFb"))], Err(DecodeError::NotUtf8 { index: 1 })),
        (vec![(4, empty().bytes(4, b"\xFFab"))], Err(DecodeError::NotUtf8 { index: 0 })),
        (vec![(14, empty().column32(14, &[0]))], length("attribute_lengths", 2, 1)),
        (vec![(14, empty().column32(14, &[0, 1]))], length("attributes", 1, 0)),
        (vec![(13, empty().bytes(13, &[1]))], length("attributes", 0, 1)),
        (
            vec![
                (13, empty().bytes(13, &vec![0; long])),
                (14, empty().column32(14, &[0, long as i32])),
            ],
            too_many("attributes", MAX_ATTRIBUTES_BYTES),
        ),
    ];
    for (columns, expected) in cases {
        check(Kind::Request, page(&columns), expected);
    }
    let nameless = Err(DecodeError::Missing { what: "segment_id" });
    check(Kind::Request, empty().message(18, empty()), nameless);
}

#[test]
fn what_standbys_are_told_that_does_not_add_up() {
    let limit = MAX_INVENTORY_PAGE_ENTRIES;
    let missing = |what| Err(DecodeError::Missing { what });
    check(Kind::Follow, empty(), missing("segment_id"));
    check(Kind::Follow, empty().bytes(3, &[7; 15]), length("segment_id", 16, 15));
    let most = || empty().column64(2, &vec![0; limit + 1]);
    let entries = || empty().message(1, empty().bytes(1, ID));
    let both = |one: Body, other: Body| Body([one.0, other.0].concat());
    for (body, expected) in [
        (entries(), Ok(())),
        (empty(), missing("entries")),
        (empty().message(1, empty()), missing("segment_id")),
        (both(entries(), entries()), too_many("entries", 1)),
        (both(entries(), most()), too_many("gone", limit)),
        (
            empty().message(1, empty().bytes(1, ID).column64(6, &vec![0; limit + 1])),
            too_many("offsets", limit),
        ),
    ] {
        check(Kind::Request, empty().message(22, Body(body.0.clone())), expected.clone());
        check(Kind::FollowReply, both(body, empty().varint(6, 0)), expected);
    }
    check(Kind::FollowReply, entries(), missing("status_code"));
    let segment = |body: Body| body.message(1, empty().bytes(1, ID));
    let listed = |body| empty().message(16, body);
    check(Kind::Reply, listed(segment(empty()).column64(2, &[1])), Ok(()));
    check(Kind::Reply, listed(segment(empty())), length("sizes", 1, 0));
    check(Kind::Reply, listed(empty().message(1, empty())), length("sizes", 1, 0));
    let nameless = empty().message(1, empty()).column64(2, &[1]);
    check(Kind::Reply, listed(nameless), missing("segment_id"));
    let limit = MAX_LISTED_SEGMENTS as usize;
    let many = empty().times(limit + 1, |body| body.message(1, Body::default()));
    check(Kind::Reply, listed(many), too_many("segments", limit));
}

#[test]
fn mounts_and_drops_that_do_not_add_up() {
    let outcome = |body| empty().message(13, body);
    check(Kind::Reply, outcome(empty()), Err(DecodeError::Missing { what: "outcome" }));
    let nothing = Err(DecodeError::OutOfRange { what: "outcome", value: 3 });
    check(Kind::Reply, outcome(empty().varint(1, 3)), nothing);
    let limit = MAX_FETCHED_DROPS as usize;
    let most = || empty().column64(2, &vec![0; limit + 1]);
    let row = || empty().column64(2, &[0]);
    let dropped = empty().column64(3, &vec![0; limit + 1]);
    check(Kind::Request, empty().message(17, dropped), too_many("offsets", limit));
    for (kind, tag) in [(Kind::Request, 19), (Kind::Reply, 14)] {
        check(kind, empty().message(tag, most()), too_many("offsets", limit));
        check(kind, empty().message(tag, row()), length("segment_ids", 16, 0));
        let short = empty().bytes(1, ID).column64(2, &[0]).column64(3, &[1]);
        check(kind, empty().message(tag, short), length("versions", 2, 1));
    }
}

#[test]
fn attributes_that_do_not_add_up() {
    let lists = |attributes: Body| {
        let found = empty().column32(1, &[0, -704]).column64(2, &[1, 1]).column32(3, &[0]);
        let body = empty().message(1, found);
        empty().message(3, Body([body.0, attributes.0].concat()))
    };
    let long = vec![0; MAX_ATTRIBUTES_BYTES + 1];
    check(Kind::Reply, lists(empty().bytes(2, b"x")), Ok(()));
    let two = empty().bytes(2, b"x").bytes(2, b"y");
    check(Kind::Reply, lists(two), length("attributes", 1, 2));
    let longer = lists(empty().bytes(2, &long));
    check(Kind::Reply, longer, too_many("attributes", MAX_ATTRIBUTES_BYTES));
    let many = lists(empty().times(MAX_BATCH_KEYS + 1, |body| body.bytes(2, b"")));
    check(Kind::Reply, many, too_many("attributes", MAX_BATCH_KEYS));

    let write = |attributes: Body| {
        let rest = empty().bytes(1, b"key").bytes(2, ID).column64(3, &[1]).column64(5, &[1; 2]);
        let rest = rest.column64(6, &[1]).column64(7, &[1]).fixed64(8, 1);
        let parts = empty().column64(1, &[1]).column64(2, &[0]).column64(3, &[1]);
        let parts = parts.column64(4, &[1; 2]);
        rest.message(9, Body([parts.0, attributes.0].concat()))
    };
    check(Kind::Write, write(empty().bytes(5, b"x")), Ok(()));
    let two = empty().bytes(5, b"x").bytes(5, b"y");
    check(Kind::Write, write(two), length("attributes", 1, 2));
    check(
        Kind::Write,
        write(empty().bytes(5, &long)),
        too_many("attributes", MAX_ATTRIBUTES_BYTES),
    );
    let many = empty().times(MAX_FRAME_RANGES + 1, |body| body.bytes(5, b""));
    check(Kind::Begin, write(many), too_many("attributes", MAX_FRAME_RANGES));
}
