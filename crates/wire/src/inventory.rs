//! The messages `ReportInventoryRequest` and `ReportChangesRequest`: a page of a ledger, as columns. Keys and
//! attributes are end to end, so that a page costs a handful of allocations on each side, for any number of entries.

use mooncake_types::limits::{MAX_ATTRIBUTES_BYTES, MAX_INVENTORY_PAGE_ENTRIES};
use mooncake_types::{ChangesPage, EntryState, InventoryEntry, InventoryPage, SegmentId};

use crate::{DecodeError, column, generated as proto};

pub(crate) fn from_page(page: &InventoryPage<'_>) -> proto::ReportInventoryRequest {
    let message = from_entries(page.segment, &page.entries);
    proto::ReportInventoryRequest { run: page.run, page: page.page, last: page.last, ..message }
}

pub(crate) fn from_changes(page: &ChangesPage<'_>) -> proto::ReportChangesRequest {
    let message = from_entries(page.segment, &page.entries);
    let entries = proto::ReportInventoryRequest { page: page.page, last: page.last, ..message };
    proto::ReportChangesRequest { entries: Some(entries), gone: page.gone.clone() }
}

/// Encodes entries as the columns of page 0, not the last one. The caller sets `run`, `page` and `last`.
pub(crate) fn from_entries(
    segment: SegmentId,
    entries: &[InventoryEntry<'_>],
) -> proto::ReportInventoryRequest {
    let has_grants = entries.iter().any(|entry| entry.grant != entry.version);
    let granted = if has_grants { entries } else { &[] };
    let is_stripe =
        |entry: &InventoryEntry<'_>| (entry.object_len, entry.object_offset) != (entry.len, 0);
    let striped = if entries.iter().any(is_stripe) { entries } else { &[] };
    let has_attributes = entries.iter().any(|entry| !entry.attributes.is_empty());
    let attributed = if has_attributes { entries } else { &[] };
    proto::ReportInventoryRequest {
        segment_id: column::from_id(segment.0),
        run: 0,
        page: 0,
        last: false,
        keys: joined(entries.iter().map(|entry| entry.key.as_bytes())).into(),
        key_lengths: entries.iter().map(|entry| entry.key.len() as u32).collect(),
        offsets: entries.iter().map(|entry| entry.offset).collect(),
        sizes: entries.iter().map(|entry| entry.len).collect(),
        versions: column::from_versions(entries.iter().map(|entry| entry.version)),
        grants: column::from_versions(granted.iter().map(|entry| entry.grant)),
        value_lengths: striped.iter().map(|entry| entry.object_len).collect(),
        value_offsets: striped.iter().map(|entry| entry.object_offset).collect(),
        states: entries.iter().map(|entry| entry.state as u8).collect::<Vec<u8>>().into(),
        attributes: joined(attributed.iter().map(|entry| entry.attributes)).into(),
        attribute_lengths: attributed.iter().map(|entry| entry.attributes.len() as u32).collect(),
    }
}

fn joined<'a>(pieces: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pieces.clone().map(<[u8]>::len).sum());
    pieces.for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}

pub(crate) fn to_page(
    message: &proto::ReportInventoryRequest,
) -> Result<InventoryPage<'_>, DecodeError> {
    let count = message.offsets.len();
    if count > MAX_INVENTORY_PAGE_ENTRIES {
        return Err(DecodeError::TooMany { what: "offsets", limit: MAX_INVENTORY_PAGE_ENTRIES });
    }
    let segment = SegmentId(column::to_id("segment_id", &message.segment_id)?);
    column::check_len("sizes", &message.sizes, count)?;
    column::check_len("states", &message.states, count)?;
    let versions = column::to_versions("versions", &message.versions, count)?;
    let grants = present_or(&message.grants, &message.versions);
    let grants = column::to_versions("grants", grants, count)?;
    let object_lens = present_or(&message.value_lengths, &message.sizes);
    column::check_len("value_lengths", object_lens, count)?;
    if !message.value_offsets.is_empty() {
        column::check_len("value_offsets", &message.value_offsets, count)?;
    }
    let object_offsets = message.value_offsets.iter().copied().chain(std::iter::repeat(0));
    let keys = to_keys(message, count)?;
    let attributes = to_attributes(message, count)?;
    let objects = object_lens.iter().zip(object_offsets).zip(attributes);
    let places = message.offsets.iter().zip(&message.sizes).zip(&message.states);
    let rows = keys.into_iter().zip(versions.zip(grants)).zip(places).zip(objects);
    let mut entries = Vec::with_capacity(count);
    for (((key, (version, grant)), place), ((&object_len, object_offset), attributes)) in rows {
        let ((&offset, &len), &state) = place;
        entries.push(InventoryEntry {
            offset,
            len,
            key,
            version,
            grant,
            object_len,
            object_offset,
            state: to_state(state)?,
            attributes,
        });
    }
    let (run, page, last) = (message.run, message.page, message.last);
    Ok(InventoryPage { segment, run, page, last, entries })
}

pub(crate) fn to_changes(
    message: &proto::ReportChangesRequest,
) -> Result<ChangesPage<'_>, DecodeError> {
    let entries = message.entries.as_ref().ok_or(DecodeError::Missing { what: "entries" })?;
    let InventoryPage { segment, page, last, entries, .. } = to_page(entries)?;
    Ok(ChangesPage { segment, page, last, entries, gone: to_gone(&message.gone)? })
}

/// Decodes the offsets at which no entry starts.
pub(crate) fn to_gone(column: &[u64]) -> Result<Vec<u64>, DecodeError> {
    match column.len() <= MAX_INVENTORY_PAGE_ENTRIES {
        true => Ok(column.to_vec()),
        false => Err(DecodeError::TooMany { what: "gone", limit: MAX_INVENTORY_PAGE_ENTRIES }),
    }
}

/// The column, or `other` if the column is absent: a sender omits the column if both are equal.
fn present_or<'a, T>(column: &'a [T], other: &'a [T]) -> &'a [T] {
    if column.is_empty() { other } else { column }
}

fn to_state(number: u8) -> Result<EntryState, DecodeError> {
    match number {
        0 => Ok(EntryState::Complete),
        1 => Ok(EntryState::Writing),
        _ => Err(DecodeError::OutOfRange { what: "states", value: number.into() }),
    }
}

fn to_keys(
    message: &proto::ReportInventoryRequest,
    count: usize,
) -> Result<Vec<&str>, DecodeError> {
    let lens = &message.key_lengths;
    column::check_len("key_lengths", lens, count)?;
    check_sum("keys", &message.keys, lens)?;
    let mut rest = std::str::from_utf8(&message.keys)
        .map_err(|error| DecodeError::NotUtf8 { index: piece_at(lens, error.valid_up_to()) })?;
    let mut keys = Vec::with_capacity(count);
    for (index, &len) in lens.iter().enumerate() {
        let (key, behind) =
            rest.split_at_checked(len as usize).ok_or(DecodeError::NotUtf8 { index })?;
        keys.push(key);
        rest = behind;
    }
    Ok(keys)
}

/// The index of the piece that holds byte `at`, if pieces of these lengths are end to end.
fn piece_at(lens: &[u32], at: usize) -> usize {
    let mut end = 0;
    lens.iter()
        .take_while(|&&len| {
            end += len as usize;
            end <= at
        })
        .count()
}

fn to_attributes(
    message: &proto::ReportInventoryRequest,
    count: usize,
) -> Result<impl Iterator<Item = &[u8]>, DecodeError> {
    let (what, lens) = ("attributes", &message.attribute_lengths);
    if !lens.is_empty() {
        column::check_len("attribute_lengths", lens, count)?;
    }
    check_sum(what, &message.attributes, lens)?;
    if lens.iter().any(|&len| len as usize > MAX_ATTRIBUTES_BYTES) {
        return Err(DecodeError::TooMany { what, limit: MAX_ATTRIBUTES_BYTES });
    }
    let mut rest = &message.attributes[..];
    let pieces = lens.iter().map(move |&len| {
        let (piece, behind) = rest.split_at(len as usize);
        rest = behind;
        piece
    });
    Ok(pieces.chain(std::iter::repeat(&[][..])))
}

fn check_sum(what: &'static str, bytes: &[u8], lens: &[u32]) -> Result<(), DecodeError> {
    let expected: u64 = lens.iter().map(|&len| u64::from(len)).sum();
    column::check_len(what, bytes, usize::try_from(expected).unwrap_or(usize::MAX))
}
