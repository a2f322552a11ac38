use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_FRAME_RANGES, MAX_KEY_BYTES};
use mooncake_types::{
    Epoch, ErrorCode, PutItem, PutStart, RangeRead, RangeWrite, ReplicateConfig, Request,
    SegmentId, Version,
};

use crate::frame::{Frame, decode, split};

/// The fullest frames that the limits allow can be sent, and come back as they were.
#[test]
fn a_batch_within_the_limits_fits_a_frame() {
    let key = &*"k".repeat(MAX_KEY_BYTES);
    let (most, segment) = (u64::MAX, SegmentId(u128::MAX));
    let version = Version { epoch: Epoch(most), counter: most };
    let read = RangeRead { segment, offset: most, version, from: most, len: most };
    let write = RangeWrite {
        segment,
        offset: most,
        len: most,
        key,
        version,
        object_len: most,
        object_offset: most,
    };
    let put = PutItem { key, len: most };
    let config = ReplicateConfig::default();
    let start = PutStart { puts: vec![put; MAX_BATCH_KEYS], config };
    let results = vec![Err(ErrorCode::TenantNotEmpty); MAX_FRAME_RANGES];
    let frames = [
        Frame::Request(Request::PutStart(start)),
        Frame::Read(vec![read; MAX_FRAME_RANGES]),
        Frame::ReadReply(results.clone()),
        Frame::Write(Epoch(most), vec![write; MAX_FRAME_RANGES]),
        Frame::WriteReply(results),
    ];
    for sent in frames {
        let bytes = sent.encode(1);
        let (header, body) = split(&bytes);
        let same = decode(header.kind, body, |received| received == sent);
        assert_eq!(same, Ok(true), "{:?}", header.kind);
    }
}
