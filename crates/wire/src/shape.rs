//! How far a message may grow, checked on its bytes before anything is allocated for it.
//!
//! Two bytes of input are enough for an empty key or an empty sub-message, which costs up to 80 bytes once decoded. So
//! the elements of such lists are counted first. Packed columns need no count: an element costs at most four times its
//! bytes, and their lengths are compared with the number of rows afterwards.

use mooncake_types::limits::{
    MAX_BATCH_KEYS, MAX_DRAIN_SEGMENTS, MAX_DUMMY_LISTED_OBJECTS, MAX_FETCHED_TASKS,
    MAX_FRAME_RANGES, MAX_LISTED_SEGMENTS, MAX_SCAN_OBJECTS, MAX_SEGMENTS,
};

use crate::DecodeError;

/// A field of length-delimited elements, and what it may hold.
pub(crate) struct Field {
    tag: u32,
    what: &'static str,
    limit: usize,
    /// The fields of each element that need counting. None if it is no message, or a small one.
    fields: &'static [Field],
}

/// The most fields that one message here lists.
const MAX_FIELDS: usize = 32;

const fn list(tag: u32, what: &'static str, limit: usize) -> Field {
    Field { tag, what, limit, fields: &[] }
}

/// A sub-message that stands once. Protobuf would merge further ones into it, and its lists would grow past their
/// limits.
const fn one(tag: u32, what: &'static str, fields: &'static [Field]) -> Field {
    Field { tag, what, limit: 1, fields }
}

const KEYS: &[Field] = &[list(1, "keys", MAX_BATCH_KEYS)];

const RETRACTED: &[Field] = &[list(1, "keys", MAX_BATCH_KEYS), one(2, "ranges", &[])];

const CONFIG: &[Field] = &[list(5, "preferred_segments", MAX_SEGMENTS)];

const READ_REPORT: &[Field] = &[one(2, "counts", &[]), one(3, "confirmed", &[])];

pub(crate) const REQUEST: &[Field] = &[
    one(1, "ping", &[one(3, "reads", READ_REPORT)]),
    one(2, "mount_segment", &[]),
    one(3, "unmount_segment", &[]),
    one(
        4,
        "put_start",
        &[
            list(1, "keys", MAX_BATCH_KEYS),
            one(3, "config", CONFIG),
            list(5, "groups", MAX_BATCH_KEYS),
        ],
    ),
    one(5, "put_end", KEYS),
    one(6, "put_revoke", KEYS),
    one(7, "get_replica_list", KEYS),
    one(8, "exist_key", KEYS),
    one(9, "remove", KEYS),
    one(10, "scan", &[]),
    one(11, "clear_replicas", KEYS),
    one(12, "create_task", &[list(4, "target_segments", MAX_SEGMENTS)]),
    one(13, "query_task", &[]),
    one(14, "fetch_tasks", &[]),
    one(15, "end_task", &[]),
    one(17, "dropped", &[]),
    one(18, "report_inventory", &[]),
    one(19, "fetch_drops", &[]),
    one(20, "drain_segments", &[]),
    one(21, "retract", RETRACTED),
    one(22, "report_changes", &[one(1, "entries", &[])]),
    one(23, "list_segments", &[]),
    one(24, "leave", &[one(1, "reads", READ_REPORT)]),
    one(25, "prefetch", KEYS),
    one(26, "prefix_len", KEYS),
];

const REPLICA_LISTS: &[Field] = &[list(8, "segments", MAX_SEGMENTS)];

const REMAINS: &[Field] = &[list(4, "segments", MAX_SEGMENTS)];

pub(crate) const RESPONSE: &[Field] = &[
    one(1, "pong", &[]),
    one(2, "done", &[]),
    one(
        3,
        "granted",
        &[one(1, "replica_lists", REPLICA_LISTS), list(2, "attributes", MAX_BATCH_KEYS)],
    ),
    one(4, "statuses", &[]),
    one(5, "located", &[one(1, "replica_lists", REPLICA_LISTS)]),
    one(6, "exist", &[]),
    one(
        7,
        "scanned",
        &[
            list(1, "keys", MAX_SCAN_OBJECTS as usize),
            one(2, "replica_lists", REPLICA_LISTS),
            one(6, "remains", REMAINS),
        ],
    ),
    one(8, "refused", &[]),
    one(9, "task_created", &[]),
    one(10, "task_reported", &[]),
    one(
        11,
        "tasks_fetched",
        &[
            list(1, "keys", MAX_FETCHED_TASKS as usize),
            one(3, "replica_lists", REPLICA_LISTS),
            list(5, "attributes", MAX_FETCHED_TASKS as usize),
        ],
    ),
    one(12, "remaining", &[one(2, "remains", REMAINS)]),
    one(13, "mounted", &[]),
    one(14, "drops", &[]),
    one(15, "draining", &[list(5, "segment_names", MAX_DRAIN_SEGMENTS)]),
    one(16, "segments", &[list(1, "segments", MAX_LISTED_SEGMENTS as usize)]),
    one(17, "prefetched", &[]),
    one(18, "prefix_len", &[]),
];

const GET_PIECES: &[Field] = &[list(1, "keys", MAX_BATCH_KEYS), one(2, "pieces", &[])];

pub(crate) const DUMMY_REQUEST: &[Field] = &[
    one(1, "attach", &[]),
    one(2, "share_memory", &[]),
    one(3, "unshare_memory", &[]),
    one(4, "health", &[]),
    one(
        5,
        "put",
        &[
            list(1, "keys", MAX_BATCH_KEYS),
            one(2, "pieces", &[]),
            one(3, "config", CONFIG),
            list(5, "groups", MAX_BATCH_KEYS),
        ],
    ),
    one(6, "get", GET_PIECES),
    one(7, "get_fragments", GET_PIECES),
    one(8, "exist_key", KEYS),
    one(9, "locate", KEYS),
    one(10, "remove", KEYS),
    one(11, "remove_matching", &[]),
    one(12, "list", &[]),
    one(13, "clear_replicas", KEYS),
    one(14, "prefix_len", KEYS),
];

pub(crate) const DUMMY_RESPONSE: &[Field] = &[
    one(1, "attached", &[]),
    one(2, "memory_shared", &[]),
    one(3, "statuses", &[]),
    one(4, "health", &[]),
    one(5, "lengths", &[]),
    one(6, "exist", &[]),
    one(7, "located", &[one(1, "replica_lists", REPLICA_LISTS)]),
    one(8, "removed", &[]),
    one(
        9,
        "listed",
        &[list(1, "keys", MAX_DUMMY_LISTED_OBJECTS), one(2, "replica_lists", REPLICA_LISTS)],
    ),
    one(10, "refused", &[]),
    one(11, "prefix_len", &[]),
];

pub(crate) const FOLLOW_REPLY: &[Field] = &[one(1, "entries", &[])];

pub(crate) const WRITE: &[Field] = &[
    list(1, "keys", MAX_FRAME_RANGES),
    one(9, "parts", &[list(5, "attributes", MAX_FRAME_RANGES)]),
];

/// Refuses a body in which a list of `fields` is too long, or that is not protobuf.
pub(crate) fn check(body: &[u8], fields: &'static [Field]) -> Result<(), DecodeError> {
    walk(Cursor { bytes: body, at: 0 }, fields)
}

fn walk(mut cursor: Cursor<'_>, fields: &'static [Field]) -> Result<(), DecodeError> {
    let mut counts = [0; MAX_FIELDS];
    while cursor.at < cursor.bytes.len() {
        let start = cursor.at;
        let malformed = DecodeError::Malformed { at: start };
        let Some((tag, element)) = cursor.field() else { return Err(malformed) };
        let Some(element) = element else { continue };
        let Some(index) = fields.iter().position(|field| field.tag == tag) else { continue };
        let field = &fields[index];
        counts[index] += 1;
        if counts[index] > field.limit {
            return Err(DecodeError::TooMany { what: field.what, limit: field.limit });
        }
        if !field.fields.is_empty() {
            walk(element, field.fields)?;
        }
    }
    Ok(())
}

/// A place in a body. `bytes` always begins where the body does, so that errors name the place.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The number of the next field, and its content if that is length-delimited. `None` if there is no whole field.
    fn field(&mut self) -> Option<(u32, Option<Cursor<'a>>)> {
        let key = u32::try_from(self.varint()?).ok()?;
        let tag = key >> 3;
        let skip = match key & 7 {
            0 => {
                self.varint()?;
                return Some((tag, None));
            }
            1 => 8,
            2 => usize::try_from(self.varint()?).ok()?,
            5 => 4,
            // Groups, which this schema does not have, and numbers that mean nothing.
            _ => return None,
        };
        let start = self.at;
        self.at = start.checked_add(skip).filter(|&end| end <= self.bytes.len())?;
        let element = Cursor { bytes: &self.bytes[..self.at], at: start };
        Some((tag, (key & 7 == 2).then_some(element)))
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
