use bytes::Bytes;
use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto, shape, status};

/// Appends a [`Kind::Write`] frame. `epoch` is that of the leader that granted the ranges. Each one's payload
/// follows the frame in turn, and after it the CRC32C of each of its chunks as a little-endian `u32`.
///
/// # Panics
/// If the body would be longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. It is not if the caller keeps to
/// [`MAX_FRAME_RANGES`] and the limit on the length of a key.
pub fn encode_write(out: &mut Vec<u8>, request_id: u64, epoch: Epoch, ranges: &[RangeWrite<'_>]) {
    let rest = proto::WriteRequest {
        keys: Vec::new(),
        segment_ids: column::from_segments(ranges.iter().map(|range| range.segment)),
        offsets: ranges.iter().map(|range| range.offset).collect(),
        sizes: ranges.iter().map(|range| range.len).collect(),
        versions: column::from_versions(ranges.iter().map(|range| range.version)),
        value_lengths: ranges.iter().map(|range| range.object_len).collect(),
        value_offsets: ranges.iter().map(|range| range.object_offset).collect(),
        epoch: Some(epoch.0),
    };
    let keys = ranges.iter().map(|range| range.key);
    frame::append_keyed(out, (Kind::Write, request_id), None, keys, &rest);
}

/// The body of a [`Kind::Write`] frame. It owns the bytes that its ranges borrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteMessage {
    epoch: Epoch,
    message: proto::WriteRequest,
}

/// The body of a [`Kind::Write`] frame. Keys are not copied; they keep the frame alive.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_write(body: Bytes) -> Result<WriteMessage, DecodeError> {
    shape::check(&body, shape::WRITE)?;
    let message = proto::WriteRequest::decode(body)?;
    let epoch = Epoch(message.epoch.ok_or(DecodeError::Missing { what: "epoch" })?);
    Ok(WriteMessage { epoch, message })
}

impl WriteMessage {
    /// The epoch of the leader that granted the ranges.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The ranges, in the order of their payload. Whether they lie in their segments, and what their lengths add up to,
    /// is for the node to check.
    ///
    /// # Errors
    /// If a key is not UTF-8, or a column has not as many elements as there are keys.
    pub fn ranges(&self) -> Result<Vec<RangeWrite<'_>>, DecodeError> {
        let message = &self.message;
        let count = message.keys.len();
        let segments = column::to_segments("segment_ids", &message.segment_ids, count)?;
        column::check_len("offsets", &message.offsets, count)?;
        column::check_len("sizes", &message.sizes, count)?;
        let versions = column::to_versions("versions", &message.versions, count)?;
        column::check_len("value_lengths", &message.value_lengths, count)?;
        column::check_len("value_offsets", &message.value_offsets, count)?;
        let keys = message.keys.iter().enumerate().map(column::to_key);
        let places = segments.zip(&message.offsets).zip(&message.sizes);
        let objects = message.value_lengths.iter().zip(&message.value_offsets);
        keys.zip(versions)
            .zip(places)
            .zip(objects)
            .map(|(((key, version), ((segment, &offset), &len)), (&object_len, &object_offset))| {
                let key = key?;
                Ok(RangeWrite { segment, offset, len, key, version, object_len, object_offset })
            })
            .collect()
    }
}

/// Appends a [`Kind::WriteReply`] frame: one result per range, in the order of the request.
pub fn encode_write_reply(out: &mut Vec<u8>, request_id: u64, results: &[Result<(), ErrorCode>]) {
    frame::append(out, Kind::WriteReply, request_id, &status::from_results(results));
}

/// The body of a [`Kind::WriteReply`] frame. Whether it has one result for each range that was sent is for the caller to
/// check.
///
/// # Errors
/// If the body is no such message, or holds more than [`MAX_FRAME_RANGES`].
pub fn decode_write_reply(body: &[u8]) -> Result<Vec<Result<(), ErrorCode>>, DecodeError> {
    status::to_results(proto::StatusListResponse::decode(body)?, MAX_FRAME_RANGES)
}
