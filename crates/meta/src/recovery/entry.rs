//! Whether an entry that a node reports is plausible.

use mooncake_types::{InventoryEntry, limits};

use super::attributes::Attributes;
use crate::objects::check_key;

/// A report of a node makes no sense: the leader must trust none of its reports on this segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImplausibleReport;

/// The attributes of an entry, if some leader can have granted the entry.
pub(super) fn read_entry<'a>(
    entry: &InventoryEntry<'a>,
) -> Result<Attributes<'a>, ImplausibleReport> {
    let end = entry.object_offset.checked_add(entry.len);
    let is_sound = check_key(entry.key).is_ok()
        && entry.len > 0
        && entry.offset.checked_add(entry.len).is_some()
        && entry.object_len <= limits::MAX_OBJECT_BYTES
        && end.is_some_and(|end| end <= entry.object_len)
        && entry.version <= entry.grant;
    is_sound.then(|| Attributes::decode(entry.attributes)).flatten().ok_or(ImplausibleReport)
}
