//! The messages with which a standby follows the ledgers of nodes, and the segments that a leader lists for it.

use bytes::Bytes;
use mooncake_types::limits::{MAX_LISTED_SEGMENTS, MAX_TASK_MESSAGE_BYTES};
use mooncake_types::{ErrorCode, Follow, FollowPage, ListedSegment, Seal, SegmentId, SegmentPage};
use prost::Message;

use crate::{
    DecodeError, Kind, column, frame, generated as proto, generated_fields as fields, inventory,
    replica_lists, shape, status,
};

/// Appends a [`Kind::Follow`] frame.
pub fn encode_follow(out: &mut Vec<u8>, request_id: u64, follow: &Follow) {
    let Follow { segment, since, from, seal } = *follow;
    let segment_id = column::from_id(segment.0);
    let message = proto::FollowRequest { since, from, segment_id, seal: seal.0 };
    frame::append(out, Kind::Follow, request_id, &message);
}

/// Decodes the body of a [`Kind::Follow`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_follow(body: &[u8]) -> Result<Follow, DecodeError> {
    let proto::FollowRequest { since, from, segment_id, seal } =
        proto::FollowRequest::decode(body)?;
    let segment = SegmentId(column::to_id("segment_id", &segment_id)?);
    Ok(Follow { segment, since, from, seal: Seal(seal) })
}

/// Appends a [`Kind::FollowReply`] frame about this segment.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. A page within its limits fits.
pub fn encode_follow_reply(
    out: &mut Vec<u8>,
    request_id: u64,
    (segment, answer): (SegmentId, Result<&FollowPage<'_>, ErrorCode>),
) {
    let status_code = Some(status::from_result(answer.map(|_| ())));
    let message = match answer {
        Ok(page) => proto::FollowResponse {
            entries: Some(inventory::from_entries(segment, &page.entries)),
            gone: page.gone.clone(),
            cursor: page.cursor,
            next: page.next,
            more: page.more,
            status_code,
        },
        Err(_) => proto::FollowResponse { status_code, ..proto::FollowResponse::default() },
    };
    frame::append(out, Kind::FollowReply, request_id, &message);
}

/// The decoded body of a [`Kind::FollowReply`] frame. It owns the bytes that its [`FollowPage`] borrows.
#[derive(Clone, Debug, PartialEq)]
pub struct FollowMessage {
    message: proto::FollowResponse,
}

/// Decodes the body of a [`Kind::FollowReply`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_follow_reply(body: Bytes) -> Result<FollowMessage, DecodeError> {
    shape::check(&body, fields::follow_response::FIELDS)?;
    Ok(FollowMessage { message: proto::FollowResponse::decode(body)? })
}

impl FollowMessage {
    /// The segment and its page, or the error with which the node answered.
    ///
    /// # Errors
    /// If a column is not as long as the table of entries, a list is longer than its limit, or a number is undefined.
    pub fn page(&self) -> Result<Result<(SegmentId, FollowPage<'_>), ErrorCode>, DecodeError> {
        let message = &self.message;
        let number = message.status_code.ok_or(DecodeError::Missing { what: "status_code" })?;
        if let Err(code) = status::to_result(number) {
            return Ok(Err(code));
        }
        let entries = message.entries.as_ref().ok_or(DecodeError::Missing { what: "entries" })?;
        let inventory = inventory::to_page(entries)?;
        let page = FollowPage {
            entries: inventory.entries,
            gone: inventory::to_gone(&message.gone)?,
            cursor: message.cursor,
            next: message.next,
            more: message.more,
        };
        Ok(Ok((inventory.segment, page)))
    }
}

pub(crate) fn from_segments(page: &SegmentPage) -> proto::ListSegmentsResponse {
    let segments = page.segments.iter();
    let end = page.put_obstacle.floor_char_boundary(MAX_TASK_MESSAGE_BYTES);
    proto::ListSegmentsResponse {
        segments: segments.clone().map(|it| replica_lists::from_segment(&it.address)).collect(),
        sizes: segments.map(|it| it.len).collect(),
        next: page.next,
        put_obstacle: page.put_obstacle[..end].to_owned(),
        follow_seals: column::from_seals(page.segments.iter().map(|it| it.seal)),
    }
}

pub(crate) fn to_segments(
    message: &proto::ListSegmentsResponse,
) -> Result<SegmentPage, DecodeError> {
    let count = message.segments.len();
    if count > MAX_LISTED_SEGMENTS as usize {
        let limit = MAX_LISTED_SEGMENTS as usize;
        return Err(DecodeError::TooMany { what: "segments", limit });
    }
    column::check_len("sizes", &message.sizes, count)?;
    if message.put_obstacle.len() > MAX_TASK_MESSAGE_BYTES {
        return Err(DecodeError::TooMany { what: "put_obstacle", limit: MAX_TASK_MESSAGE_BYTES });
    }
    let seals = column::to_seals("follow_seals", &message.follow_seals, count)?;
    let rows = message.segments.iter().zip(&message.sizes).zip(seals);
    let listed = |((segment, &len), seal)| {
        Ok(ListedSegment { address: replica_lists::to_segment(segment)?, len, seal })
    };
    let segments = rows.map(listed).collect::<Result<_, DecodeError>>()?;
    Ok(SegmentPage { segments, next: message.next, put_obstacle: message.put_obstacle.clone() })
}
