use mooncake_types::RangeRead;
use mooncake_types::limits::MAX_FRAME_RANGES;
use prost::Message;

use crate::{DecodeError, Kind, column, frame, generated as proto};

/// Appends a [`Kind::Read`] frame.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. Up to [`MAX_FRAME_RANGES`] ranges fit.
pub fn encode_read(out: &mut Vec<u8>, request_id: u64, ranges: &[RangeRead]) {
    append_ranges(out, (Kind::Read, request_id), ranges);
}

/// Appends a frame of this kind and request id that names entries to read, pin or promise.
pub(crate) fn append_ranges(
    out: &mut Vec<u8>,
    (kind, request_id): (Kind, u64),
    ranges: &[RangeRead],
) {
    let is_striped = ranges.iter().any(|range| range.object_offset > 0);
    let mut sizes = ranges.iter().map(|range| range.len).collect();
    let stripes = is_striped.then(|| proto::ReadStripes {
        value_offsets: ranges.iter().map(|range| range.object_offset).collect(),
        sizes: std::mem::take(&mut sizes),
    });
    let message = proto::ReadRequest {
        segment_ids: column::from_segments(ranges.iter().map(|range| range.segment)),
        offsets: ranges.iter().map(|range| range.offset).collect(),
        versions: column::from_versions(ranges.iter().map(|range| range.version)),
        starts: ranges.iter().map(|range| range.from).collect(),
        sizes,
        stripes,
        seals: column::from_seals(ranges.iter().map(|range| range.seal)),
    };
    frame::append(out, kind, request_id, &message);
}

/// Decodes the body of a [`Kind::Read`], [`Kind::Pin`] or [`Kind::Promise`] frame. The node must check that the ranges
/// lie in their segments.
///
/// # Errors
/// If the body is not a message of this kind, a column has the wrong length, or the body names more than
/// [`MAX_FRAME_RANGES`] ranges.
pub fn decode_read(body: &[u8]) -> Result<Vec<RangeRead>, DecodeError> {
    let message = proto::ReadRequest::decode(body)?;
    let count = message.offsets.len();
    if count > MAX_FRAME_RANGES {
        return Err(DecodeError::TooMany { what: "offsets", limit: MAX_FRAME_RANGES });
    }
    let segments = column::to_segments("segment_ids", &message.segment_ids, count)?;
    let versions = column::to_versions("versions", &message.versions, count)?;
    column::check_len("starts", &message.starts, count)?;
    let (sizes, object_offsets) = match &message.stripes {
        None => (&message.sizes, &[][..]),
        Some(stripes) => {
            column::check_len("sizes", &message.sizes, 0)?;
            column::check_len("value_offsets", &stripes.value_offsets, count)?;
            (&stripes.sizes, &stripes.value_offsets[..])
        }
    };
    column::check_len("sizes", sizes, count)?;
    let object_offsets = object_offsets.iter().copied().chain(std::iter::repeat(0));
    let places = segments.zip(&message.offsets).zip(versions);
    let seals = column::to_seals("seals", &message.seals, count)?;
    let parts = message.starts.iter().zip(sizes).zip(object_offsets);
    let row = |((((segment, &offset), version), ((&from, &len), object_offset)), seal)| RangeRead {
        segment,
        offset,
        version,
        object_offset,
        from,
        len,
        seal,
    };
    Ok(places.zip(parts).zip(seals).map(row).collect())
}
