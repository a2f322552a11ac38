use bytes::Bytes;
use mooncake_types::limits::MAX_DUMMY_PIECES;
use mooncake_types::{DummyFragments, DummyObject, DummyPut, DummyRequest, Piece};
use prost::Message;

use crate::frame::RequestWriter;
use crate::generated::dummy_request::Operation;
use crate::generated_fields::dummy_request as field;
use crate::{DecodeError, Kind, column, exist, generated as proto, put_config, shape};

/// Appends a [`Kind::DummyRequest`] frame.
///
/// # Panics
/// If the body is longer than [`mooncake_types::limits::MAX_FRAME_BODY_BYTES`]. A request within the limits on the
/// lengths of keys and names, and on the numbers of keys and pieces, fits.
pub fn encode_dummy_request(out: &mut Vec<u8>, request_id: u64, request: &DummyRequest<'_>) {
    let mut body = RequestWriter { out, frame: (Kind::DummyRequest, request_id) };
    match request {
        DummyRequest::Attach { attachment } => {
            let attachment_id = attachment.map(column::from_id).unwrap_or_default();
            body.message(&field::ATTACH, &proto::AttachRequest { attachment_id });
        }
        DummyRequest::ShareMemory { len } => {
            body.message(&field::SHARE_MEMORY, &proto::ShareMemoryRequest { size: *len });
        }
        DummyRequest::UnshareMemory { map } => {
            body.message(&field::UNSHARE_MEMORY, &proto::UnshareMemoryRequest { map: *map });
        }
        DummyRequest::Health => body.message(&field::HEALTH, &proto::HealthRequest {}),
        DummyRequest::Put { mode, config, puts } => {
            let rest = proto::PutPiecesRequest {
                keys: Vec::new(),
                pieces: Some(from_pieces(puts.iter().map(|put| put.object.pieces.iter()))),
                config: Some(put_config::from_config(config)),
                mode: put_config::from_mode(*mode),
                groups: put_config::from_labels(puts.iter().map(|put| put.group)),
                sessions: put_config::from_labels(puts.iter().map(|put| put.session)),
            };
            body.keyed(&field::PUT, puts.iter().map(|put| put.object.key), &rest);
        }
        DummyRequest::Get { objects } => {
            let pieces = Some(from_pieces(objects.iter().map(|object| object.pieces.iter())));
            let rest = proto::GetPiecesRequest { pieces, ..proto::GetPiecesRequest::default() };
            body.keyed(&field::GET, objects.iter().map(|object| object.key), &rest);
        }
        DummyRequest::GetFragments { objects } => {
            let fragments = || objects.iter().map(|object| object.fragments.iter());
            let rest = proto::GetPiecesRequest {
                keys: Vec::new(),
                pieces: Some(from_pieces(fragments().map(|of| of.map(|(_, piece)| piece)))),
                value_offsets: fragments().flatten().map(|(offset, _)| *offset).collect(),
            };
            body.keyed(&field::GET_FRAGMENTS, objects.iter().map(|object| object.key), &rest);
        }
        DummyRequest::Exist { keys, options } => {
            body.keys(&field::EXIST_KEY, keys, &exist::from_options(*options));
        }
        DummyRequest::PrefixLen { keys, leased_from } => {
            body.keys(&field::PREFIX_LEN, keys, &exist::from_prefix(*leased_from));
        }
        DummyRequest::Locate { to_get, keys } => {
            let rest = proto::LocateRequest { keys: Vec::new(), to_get: *to_get };
            body.keyed(&field::LOCATE, keys.iter().copied(), &rest);
        }
        DummyRequest::Remove { keys, force } => {
            let rest = proto::RemoveRequest { keys: Vec::new(), force: *force };
            body.keyed(&field::REMOVE, keys.iter().copied(), &rest);
        }
        DummyRequest::RemoveMatching { pattern, force } => {
            let key_regex = pattern.map(str::to_owned);
            let remove = proto::RemoveMatchingRequest { key_regex, force: *force };
            body.message(&field::REMOVE_MATCHING, &remove);
        }
        DummyRequest::List { pattern } => {
            let key_regex = (*pattern).to_owned();
            body.message(&field::LIST, &proto::ListRequest { key_regex });
        }
        DummyRequest::ClearReplicas { keys, segment } => {
            let segment_name = (*segment).to_owned();
            let rest = proto::ClearReplicasRequest { keys: Vec::new(), segment_name };
            body.keyed(&field::CLEAR_REPLICAS, keys.iter().copied(), &rest);
        }
    }
}

fn from_pieces<'a>(
    rows: impl Iterator<Item = impl ExactSizeIterator<Item = &'a Piece>>,
) -> proto::Pieces {
    let mut pieces = proto::Pieces::default();
    for row in rows {
        pieces.counts.push(row.len() as u32);
        for piece in row {
            pieces.maps.push(piece.map);
            pieces.offsets.push(piece.offset);
            pieces.sizes.push(piece.len);
        }
    }
    pieces
}

/// The decoded body of a [`Kind::DummyRequest`] frame. It owns the bytes that its [`DummyRequest`] borrows.
#[derive(Clone, Debug, PartialEq)]
pub struct DummyRequestMessage {
    operation: Operation,
}

/// Decodes the body of a [`Kind::DummyRequest`] frame. Does not copy keys: the message keeps the frame's memory alive.
///
/// # Errors
/// If the body is not a message of this kind, or a list is longer than its limit. This function does not check the
/// lengths of keys and names.
pub fn decode_dummy_request(body: Bytes) -> Result<DummyRequestMessage, DecodeError> {
    shape::check(&body, field::FIELDS)?;
    let operation = proto::DummyRequest::decode(body)?.operation;
    let operation = operation.ok_or(DecodeError::Missing { what: "operation" })?;
    Ok(DummyRequestMessage { operation })
}

impl DummyRequestMessage {
    /// The request, which borrows from this message.
    ///
    /// # Errors
    /// If a key or a group is not UTF-8, a column has the wrong length, there are too many pieces, or a number is
    /// undefined.
    pub fn request(&self) -> Result<DummyRequest<'_>, DecodeError> {
        Ok(match &self.operation {
            Operation::Attach(attach) => {
                let id = Some(&attach.attachment_id).filter(|id| !id.is_empty());
                let attachment = id.map(|id| column::to_id("attachment_id", id)).transpose()?;
                DummyRequest::Attach { attachment }
            }
            Operation::ShareMemory(share) => DummyRequest::ShareMemory { len: share.size },
            Operation::UnshareMemory(unshare) => DummyRequest::UnshareMemory { map: unshare.map },
            Operation::Health(_) => DummyRequest::Health,
            Operation::Put(put) => to_put(put)?,
            Operation::Get(get) => {
                DummyRequest::Get { objects: to_objects(&get.keys, get.pieces.as_ref())? }
            }
            Operation::GetFragments(get) => {
                DummyRequest::GetFragments { objects: to_fragments(get)? }
            }
            Operation::ExistKey(asked) => DummyRequest::Exist {
                keys: column::to_keys(&asked.keys)?,
                options: exist::to_options(asked),
            },
            Operation::PrefixLen(prefix) => DummyRequest::PrefixLen {
                keys: column::to_keys(&prefix.keys)?,
                leased_from: prefix.leased_from,
            },
            Operation::Locate(locate) => {
                let keys = column::to_keys(&locate.keys)?;
                DummyRequest::Locate { to_get: locate.to_get, keys }
            }
            Operation::Remove(remove) => {
                let keys = column::to_keys(&remove.keys)?;
                DummyRequest::Remove { keys, force: remove.force }
            }
            Operation::RemoveMatching(remove) => DummyRequest::RemoveMatching {
                pattern: remove.key_regex.as_deref(),
                force: remove.force,
            },
            Operation::List(list) => DummyRequest::List { pattern: &list.key_regex },
            Operation::ClearReplicas(clear) => {
                let keys = column::to_keys(&clear.keys)?;
                DummyRequest::ClearReplicas { keys, segment: &clear.segment_name }
            }
        })
    }
}

fn to_put(put: &proto::PutPiecesRequest) -> Result<DummyRequest<'_>, DecodeError> {
    let objects = to_objects(&put.keys, put.pieces.as_ref())?;
    let groups = put_config::to_labels("groups", &put.groups, objects.len())?;
    let sessions = put_config::to_labels("sessions", &put.sessions, objects.len())?;
    let puts = objects.into_iter().zip(groups.zip(sessions)).map(|(object, (group, session))| {
        Ok(DummyPut { object, group: group?, session: session? })
    });
    let puts = puts.collect::<Result<Vec<_>, DecodeError>>()?;
    let config = put_config::to_config(put.config.as_ref())?;
    Ok(DummyRequest::Put { mode: put_config::to_mode(put.mode)?, config, puts })
}

fn to_objects<'a>(
    keys: &'a [Bytes],
    pieces: Option<&proto::Pieces>,
) -> Result<Vec<DummyObject<'a>>, DecodeError> {
    let mut pieces = to_pieces(keys.len(), pieces)?;
    let rows = keys.iter().enumerate().map(|key| {
        let key = column::to_key(key)?;
        Ok(DummyObject { key, pieces: pieces.next().unwrap_or_default() })
    });
    rows.collect()
}

fn to_fragments(get: &proto::GetPiecesRequest) -> Result<Vec<DummyFragments<'_>>, DecodeError> {
    let objects = to_objects(&get.keys, get.pieces.as_ref())?;
    let count = objects.iter().map(|object| object.pieces.len()).sum();
    column::check_len("value_offsets", &get.value_offsets, count)?;
    let mut offsets = get.value_offsets.iter().copied();
    let fragments = |DummyObject { key, pieces }| DummyFragments {
        key,
        fragments: offsets.by_ref().take(pieces.len()).zip(pieces).collect(),
    };
    Ok(objects.into_iter().map(fragments).collect())
}

/// Decodes the pieces of each of `count` keys.
fn to_pieces(
    count: usize,
    pieces: Option<&proto::Pieces>,
) -> Result<impl Iterator<Item = Vec<Piece>>, DecodeError> {
    let proto::Pieces { counts, maps, offsets, sizes } =
        pieces.ok_or(DecodeError::Missing { what: "pieces" })?;
    column::check_len("counts", counts, count)?;
    let total = counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    if total > MAX_DUMMY_PIECES as u64 {
        return Err(DecodeError::TooMany { what: "pieces", limit: MAX_DUMMY_PIECES });
    }
    let total = total as usize;
    column::check_len("maps", maps, total)?;
    column::check_len("offsets", offsets, total)?;
    column::check_len("sizes", sizes, total)?;
    let rows = maps.iter().zip(offsets).zip(sizes);
    let mut rows = rows.map(|((&map, &offset), &len)| Piece { map, offset, len });
    Ok(counts.iter().map(move |&count| rows.by_ref().take(count as usize).collect()))
}
