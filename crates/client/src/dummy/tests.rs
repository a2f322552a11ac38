//! The protocol on its own: every call and answer, and what is none.

use mooncake_ops::{ObjectLocation, ReplicaLocation, Stripe};
use mooncake_types::{
    Chance, Epoch, ErrorCode, ReplicateConfig, SegmentAddress, SegmentId, SoftPin, Version, limits,
};

use super::answer::Answer;
use super::protocol::{
    Call, HEAD_LEN, Head, Item, MAX_BODY_BYTES, MAX_PIECES, Malformed, Piece, RangedItem,
};

fn pieces(count: u32) -> Vec<Piece> {
    (0..count).map(|map| Piece { map, offset: u64::from(map) << 40, len: u64::MAX }).collect()
}

fn configs() -> Vec<ReplicateConfig<'static>> {
    let pins = [
        SoftPin::Preserve,
        SoftPin::Enable { ttl_ms: None },
        SoftPin::Enable { ttl_ms: Some(7) },
        SoftPin::Disable,
        SoftPin::Sliding,
    ];
    let config = |soft_pin| ReplicateConfig {
        replica_num: 3,
        soft_pin,
        hard_pin: true,
        preferred_segments: vec!["one", ""],
        excluded_segments: vec![SegmentId(u128::MAX)],
        data_type: 9,
    };
    pins.map(config).into_iter().chain([ReplicateConfig::default()]).collect()
}

fn calls() -> Vec<Call<'static>> {
    let item = |count| Item { key: "key", group: "group", pieces: pieces(count) };
    let fragments = vec![(5, pieces(1)[0]), (u64::MAX, pieces(2)[1])];
    let ranged = RangedItem { key: "kéy", fragments };
    let mut calls = vec![
        Call::Hello { version: 1, token: "token", guest: None },
        Call::Hello { version: u32::MAX, token: "", guest: Some(u128::MAX) },
        Call::Share { len: u64::MAX },
        Call::Unshare { map: 3 },
        Call::Health,
        Call::GetInto { items: vec![item(2), item(0)] },
        Call::GetRanges { items: vec![ranged, RangedItem { key: "", fragments: vec![] }] },
        Call::Exist { keys: vec!["a", "", "c"] },
        Call::Locate { to_get: true, keys: vec![] },
        Call::Remove { keys: vec!["a"], force: true },
        Call::RemoveScan { pattern: None, force: false },
        Call::RemoveScan { pattern: Some("^a"), force: true },
        Call::List { pattern: "x" },
        Call::Clear { keys: vec!["a"], segment: "host:1" },
    ];
    calls.extend(configs().into_iter().map(|config| {
        let items = vec![item(1), item(3)];
        Call::Put { upsert: config.hard_pin, config, items }
    }));
    calls
}

fn location() -> ObjectLocation {
    let segment = SegmentAddress { id: SegmentId(4), name: "n:1".into(), endpoint: "e:2".into() };
    let stripes = vec![Stripe { segment, offset: 64, len: 1000 }];
    let replicas = vec![ReplicaLocation { number: 2, stripes }];
    ObjectLocation { version: Version { epoch: Epoch(3), counter: 8 }, len: 1000, replicas }
}

fn answers() -> Vec<Answer> {
    const MISSING: ErrorCode = ErrorCode::ObjectNotFound;
    vec![
        Answer::Welcome { guest: 5, hostname: "host:1".to_owned() },
        Answer::Refused { code: ErrorCode::IllegalClient, message: "no".to_owned() },
        Answer::Shared(Ok(3)),
        Answer::Shared(Err(ErrorCode::InvalidParams)),
        Answer::Statuses(vec![Ok(()), Err(MISSING)]),
        Answer::Health(true),
        Answer::Lengths(vec![Ok(u64::MAX), Err(MISSING), Ok(0)]),
        Answer::Ranges(vec![vec![], vec![Ok(1), Err(MISSING)]]),
        Answer::Exist(vec![Ok(true), Ok(false), Err(ErrorCode::InvalidKey)]),
        Answer::Located(vec![Ok(location()), Err(MISSING)]),
        Answer::Count(Ok(9)),
        Answer::Count(Err(ErrorCode::InvalidParams)),
        Answer::Listed(Ok(vec![("key".to_owned(), location())])),
        Answer::Listed(Err(ErrorCode::RpcFail)),
    ]
}

/// Kind and body of an encoded frame.
fn parts(frame: &[u8]) -> (u8, &[u8]) {
    let head = frame[..HEAD_LEN].try_into().expect("a frame has a head");
    let head = Head::decode(head, MAX_BODY_BYTES).expect("it was encoded");
    assert_eq!(head.body_len as usize, frame.len() - HEAD_LEN);
    (head.kind, &frame[HEAD_LEN..])
}

#[test]
fn calls_and_answers_are_read_as_they_were_written() {
    for call in calls() {
        let frame = call.encode();
        let (kind, body) = parts(&frame);
        assert_eq!(Call::decode(kind, body), Ok(call));
    }
    for answer in answers() {
        let frame = answer.encode();
        let (kind, body) = parts(&frame);
        assert_eq!(Answer::decode(kind, body), Ok(answer));
    }
}

#[test]
fn what_ends_early_or_late_is_no_frame() {
    for frame in calls().iter().map(Call::encode) {
        let (kind, body) = parts(&frame);
        for end in 0..body.len() {
            assert!(Call::decode(kind, &body[..end]).is_err(), "call {kind}, {end} bytes");
        }
        let longer = [body, &[0]].concat();
        assert!(Call::decode(kind, &longer).is_err(), "call {kind}");
    }
    for frame in answers().iter().map(Answer::encode) {
        let (kind, body) = parts(&frame);
        for end in 0..body.len() {
            assert!(Answer::decode(kind, &body[..end]).is_err(), "answer {kind}, {end} bytes");
        }
        let longer = [body, &[0]].concat();
        assert!(Answer::decode(kind, &longer).is_err(), "answer {kind}");
    }
}

#[test]
fn bounds_are_kept() {
    let refused = |call: Call<'_>, reason| {
        let frame = call.encode();
        let (kind, body) = parts(&frame);
        assert_eq!(Call::decode(kind, body), Err(Malformed(reason)));
    };
    let long = |len: usize| "x".repeat(len);
    refused(Call::Exist { keys: vec!["k"; limits::MAX_BATCH_KEYS + 1] }, "a list is too long");
    refused(Call::Exist { keys: vec![&long(limits::MAX_KEY_BYTES + 2)] }, "a text is too long");
    refused(Call::List { pattern: &long(limits::MAX_REGEX_BYTES + 2) }, "a text is too long");
    let token = long(limits::MAX_NAME_BYTES + 1);
    refused(Call::Hello { version: 1, token: &token, guest: None }, "a text is too long");
    refused(Call::Clear { keys: vec![], segment: &token }, "a text is too long");
    let half = pieces(MAX_PIECES as u32 / 2 + 1);
    let item = || Item { key: "k", group: "", pieces: half.clone() };
    refused(Call::GetInto { items: vec![item(), item()] }, "a list is too long");
    let fragments: Vec<(u64, Piece)> = half.iter().map(|piece| (0, *piece)).collect();
    let ranged = || RangedItem { key: "k", fragments: fragments.clone() };
    refused(Call::GetRanges { items: vec![ranged(), ranged()] }, "a list is too long");
}

#[test]
fn a_list_that_is_longer_than_a_frame_is_an_error() {
    let key = "k".repeat(4000);
    let objects = vec![(key, location()); MAX_BODY_BYTES / 4000];
    let frame = Answer::Listed(Ok(objects)).encode();
    let (kind, body) = parts(&frame);
    let short = Answer::Listed(Err(ErrorCode::BufferOverflow));
    assert_eq!(Answer::decode(kind, body), Ok(short));
}

/// Whatever comes is read or refused, and what is read is written as it came.
#[test]
fn random_bytes_are_read_or_refused() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("SEED={seed}");
    let mut chance = Chance::new(seed);
    let frames: Vec<Vec<u8>> =
        calls().iter().map(Call::encode).chain(answers().iter().map(Answer::encode)).collect();
    for _ in 0..30_000 {
        let mut frame = frames[chance.below(frames.len() as u64) as usize].clone();
        for _ in 0..chance.below(6) {
            let at = chance.below(frame.len() as u64) as usize;
            frame[at] = chance.bits() as u8;
        }
        if chance.below(4) == 0 {
            frame.truncate(chance.below(frame.len() as u64 + 1) as usize);
        }
        let Some((head, body)) = frame.split_first_chunk::<HEAD_LEN>() else { continue };
        let Ok(Head { kind, .. }) = Head::decode(head, MAX_BODY_BYTES) else { continue };
        if let Ok(call) = Call::decode(kind, body) {
            assert_eq!(parts(&call.encode()), (kind, body));
        }
        if let Ok(answer) = Answer::decode(kind, body) {
            let again = answer.encode();
            assert_eq!(Answer::decode(kind, parts(&again).1), Ok(answer));
        }
    }
}
