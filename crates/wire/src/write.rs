use bytes::Bytes;
use mooncake_types::{Epoch, RangeWrite};
use prost::Message;

use crate::{
    DecodeError, Kind, column, frame, generated as proto, generated_fields as fields, shape,
};

/// Appends a [`Kind::Write`] frame. `epoch` is that of the leader that granted the ranges. After the frame, the caller
/// sends the payload of each range in order. After each payload comes the CRC32C of each of its chunks, as a
/// little-endian `u32`.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. Up to
/// [`MAX_FRAME_RANGES`](mooncake_types::limits::MAX_FRAME_RANGES) ranges fit, if their keys and attributes are within
/// their limits.
pub fn encode_write(out: &mut Vec<u8>, request_id: u64, epoch: Epoch, ranges: &[RangeWrite<'_>]) {
    append_ranges(out, (Kind::Write, request_id), epoch, ranges);
}

/// Appends a [`Kind::Begin`] frame: as [`encode_write`], without payload.
///
/// # Panics
/// As [`encode_write`].
pub fn encode_begin(out: &mut Vec<u8>, request_id: u64, epoch: Epoch, ranges: &[RangeWrite<'_>]) {
    append_ranges(out, (Kind::Begin, request_id), epoch, ranges);
}

fn append_ranges(out: &mut Vec<u8>, head: (Kind, u64), epoch: Epoch, ranges: &[RangeWrite<'_>]) {
    let mut in_parts = false;
    let versions = column::from_versions(ranges.iter().map(|range| {
        in_parts |= is_part(range);
        range.version
    }));
    let parts = in_parts.then(|| from_parts(ranges));
    let sizes = if parts.is_some() { &[] } else { ranges };
    let rest = proto::WriteRequest {
        keys: Vec::new(),
        segment_ids: column::from_segments(ranges.iter().map(|range| range.segment)),
        offsets: ranges.iter().map(|range| range.offset).collect(),
        sizes: sizes.iter().map(|range| range.len).collect(),
        versions,
        value_lengths: ranges.iter().map(|range| range.object_len).collect(),
        value_offsets: ranges.iter().map(|range| range.object_offset).collect(),
        epoch: Some(epoch.0),
        parts,
        seals: column::from_seals(ranges.iter().map(|range| range.seal)),
    };
    let keys = ranges.iter().map(|range| range.key);
    frame::append_keyed(out, head, None, keys, &rest);
}

/// Whether a range needs [`proto::WriteParts`]. Most ranges do not: they are written whole, with their version as the
/// grant, without attributes.
fn is_part(range: &RangeWrite<'_>) -> bool {
    (range.entry_len, range.from, range.grant) != (range.len, 0, range.version)
        || !range.attributes.is_empty()
}

fn from_parts(ranges: &[RangeWrite<'_>]) -> proto::WriteParts {
    proto::WriteParts {
        range_sizes: ranges.iter().map(|range| range.entry_len).collect(),
        starts: ranges.iter().map(|range| range.from).collect(),
        sizes: ranges.iter().map(|range| range.len).collect(),
        grants: column::from_versions(ranges.iter().map(|range| range.grant)),
        attributes: column::from_attributes(ranges.iter().map(|range| range.attributes)),
    }
}

/// The decoded body of a [`Kind::Write`] or [`Kind::Begin`] frame. It owns the bytes that its ranges borrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteMessage {
    epoch: Epoch,
    message: proto::WriteRequest,
}

/// Decodes the body of a [`Kind::Write`] or [`Kind::Begin`] frame. Does not copy keys: the message keeps the frame's
/// memory alive.
///
/// # Errors
/// If the body is not a message of this kind, or names more than
/// [`MAX_FRAME_RANGES`](mooncake_types::limits::MAX_FRAME_RANGES) ranges.
pub fn decode_write(body: Bytes) -> Result<WriteMessage, DecodeError> {
    shape::check(&body, fields::write_request::FIELDS)?;
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

    /// The ranges, in the order of their payload. The node must check that they lie in their segments, and the sum of
    /// their lengths.
    ///
    /// # Errors
    /// If a key is not UTF-8, a column is not as long as the list of keys, or attributes are too long.
    pub fn ranges(&self) -> Result<Vec<RangeWrite<'_>>, DecodeError> {
        let message = &self.message;
        let Some(parts) = &message.parts else { return whole_ranges(message, &message.sizes) };
        column::check_len("sizes", &message.sizes, 0)?;
        let mut ranges = whole_ranges(message, &parts.sizes)?;
        let count = ranges.len();
        column::check_len("range_sizes", &parts.range_sizes, count)?;
        column::check_len("starts", &parts.starts, count)?;
        let grants = column::to_versions("grants", &parts.grants, count)?;
        let attributes = column::to_attributes(&parts.attributes, count)?;
        let places = parts.range_sizes.iter().zip(&parts.starts).zip(grants).zip(attributes);
        for (range, (((&entry_len, &from), grant), attributes)) in ranges.iter_mut().zip(places) {
            *range = RangeWrite { entry_len, from, grant, attributes, ..*range };
        }
        Ok(ranges)
    }
}

/// Decodes the ranges of a frame as if the frame wrote each of them whole, with its version as the grant.
fn whole_ranges<'a>(
    message: &'a proto::WriteRequest,
    sizes: &[u64],
) -> Result<Vec<RangeWrite<'a>>, DecodeError> {
    let count = message.keys.len();
    let segments = column::to_segments("segment_ids", &message.segment_ids, count)?;
    column::check_len("offsets", &message.offsets, count)?;
    column::check_len("sizes", sizes, count)?;
    let versions = column::to_versions("versions", &message.versions, count)?;
    column::check_len("value_lengths", &message.value_lengths, count)?;
    column::check_len("value_offsets", &message.value_offsets, count)?;
    let seals = column::to_seals("seals", &message.seals, count)?;
    let keys = message.keys.iter().enumerate().map(column::to_key);
    let places = segments.zip(&message.offsets).zip(sizes).zip(seals);
    let objects = message.value_lengths.iter().zip(&message.value_offsets);
    // `collect` into a `Result` would not reserve `count` elements at once.
    let mut ranges = Vec::with_capacity(count);
    for (((key, version), (((segment, &offset), &len), seal)), (&object_len, &object_offset)) in
        keys.zip(versions).zip(places).zip(objects)
    {
        ranges.push(RangeWrite {
            segment,
            offset,
            entry_len: len,
            from: 0,
            len,
            key: key?,
            version,
            grant: version,
            object_len,
            object_offset,
            attributes: &[],
            seal,
        });
    }
    Ok(ranges)
}
