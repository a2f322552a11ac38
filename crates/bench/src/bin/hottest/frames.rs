//! Encoding and decoding of frames.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use mooncake_types::{
    Epoch, Located, Placement, PutItem, PutStart, RangeRead, RangeWrite, Reply, Request, Seal,
    SegmentAddress, SegmentId, Version,
};
use mooncake_wire::{
    HEADER_LEN, decode_read, decode_reply, decode_request, decode_write, encode_read, encode_reply,
    encode_request, encode_write,
};

use crate::Row;
use crate::keys::{BATCH, batches, borrowed};

const OBJECT_BYTES: u64 = 1 << 20;

pub(crate) const OPERATIONS: &[Row] = &[
    ("encode_request", "PutStart encoded, 1,000 keys; per key", BATCH, encode_requests),
    ("decode_request", "PutStart decoded, 1,000 keys; per key", BATCH, decode_requests),
    ("encode_reply", "the reply to a look-up encoded, 1,000 keys; per key", BATCH, encode_replies),
    ("decode_reply", "the reply to a look-up decoded, 1,000 keys; per key", BATCH, decode_replies),
    ("read_frame", "a Read frame encoded and decoded, 1,000 ranges; per range", BATCH, read_frames),
    (
        "write_frame",
        "a Write frame encoded and decoded, 1,000 ranges; per range",
        BATCH,
        write_frames,
    ),
];

fn version(counter: usize) -> Version {
    Version { epoch: Epoch(1_700_000_000), counter: 1_000_000 + counter as u64 }
}

fn segment(at: usize) -> SegmentAddress {
    let name: Arc<str> = format!("10.0.0.{at}:12345").into();
    SegmentAddress {
        id: SegmentId(1 << 100 | at as u128),
        name: name.clone(),
        endpoint: name,
        medium: mooncake_types::Medium::Memory,
    }
}

fn put_start(keys: &[String]) -> Request<'_> {
    let puts = keys.iter().map(|key| PutItem::new(key, OBJECT_BYTES)).collect();
    Request::PutStart(PutStart { puts, ..PutStart::default() })
}

fn located() -> Reply {
    let at = |at: usize| {
        let offset = at as u64 * OBJECT_BYTES;
        let placement = Placement {
            replica: 0,
            segment: (at % 16) as u32,
            offset,
            len: OBJECT_BYTES,
            seal: Seal::NONE,
        };
        Ok(Located { version: version(at), len: OBJECT_BYTES, placements: vec![placement] })
    };
    let segments = (0..16).map(segment).collect();
    let results = (0..BATCH).map(at).collect();
    Reply::Located { results, successors: vec![], predecessors: vec![], segments, lease_ms: 5000 }
}

/// Encodes a frame repeatedly into one buffer, as a connection does.
fn encode(rounds: usize, encode: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(&mut frame);
    for _ in 0..rounds {
        frame.clear();
        encode(&mut frame);
        black_box(&frame);
    }
    frame
}

fn body(frame: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&frame[HEADER_LEN..])
}

fn encode_requests(rounds: usize) {
    let keys = batches(0, 1);
    let request = put_start(&keys[0]);
    encode(rounds, |out| encode_request(out, 1, black_box(&request)));
}

fn decode_requests(rounds: usize) {
    let keys = batches(0, 1);
    let body = body(&encode(1, |out| encode_request(out, 1, &put_start(&keys[0]))));
    for _ in 0..rounds {
        let message = decode_request(body.clone()).expect("the frame is whole");
        black_box(message.request().expect("the message is sound"));
    }
}

fn encode_replies(rounds: usize) {
    let reply = located();
    encode(rounds, |out| encode_reply(out, 1, black_box(&reply)));
}

fn decode_replies(rounds: usize) {
    let body = body(&encode(1, |out| encode_reply(out, 1, &located())));
    for _ in 0..rounds {
        black_box(decode_reply(body.clone()).expect("the frame is whole"));
    }
}

fn read_frames(rounds: usize) {
    let read = |at: usize| RangeRead {
        segment: segment(at % 16).id,
        offset: at as u64 * OBJECT_BYTES,
        version: version(at),
        object_offset: 0,
        from: 0,
        len: OBJECT_BYTES,
        seal: Seal::NONE,
    };
    let reads: Vec<_> = (0..BATCH).map(read).collect();
    for _ in 0..rounds {
        let frame = encode(0, |out| encode_read(out, 1, black_box(&reads)));
        black_box(decode_read(&body(&frame)).expect("the frame is whole"));
    }
}

fn write_frames(rounds: usize) {
    let keys = batches(0, 1);
    let write = |(at, key)| RangeWrite {
        segment: segment(at % 16).id,
        offset: at as u64 * OBJECT_BYTES,
        entry_len: OBJECT_BYTES,
        from: 0,
        len: OBJECT_BYTES,
        key,
        version: version(at),
        grant: version(at),
        object_len: OBJECT_BYTES,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    };
    let writes: Vec<_> = borrowed(&keys[0]).into_iter().enumerate().map(write).collect();
    for _ in 0..rounds {
        let frame = encode(0, |out| encode_write(out, 1, Epoch(7), black_box(&writes)));
        let message = decode_write(body(&frame)).expect("the frame is whole");
        black_box(message.ranges().expect("the message is sound"));
    }
}
