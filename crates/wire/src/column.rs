//! Columns: one list per member of a structure, instead of a list of structures.

use bytes::Bytes;
use mooncake_types::limits::MAX_ATTRIBUTES_BYTES;
use mooncake_types::{Epoch, Medium, Seal, SegmentId, Version};

use crate::{DecodeError, generated as proto};

const ID_BYTES: usize = 16;

/// Encodes an id as 16 bytes, most significant first.
pub(crate) fn from_id(id: u128) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

/// Decodes the id in a field.
pub(crate) fn to_id(what: &'static str, bytes: &[u8]) -> Result<u128, DecodeError> {
    match bytes.try_into() {
        Ok(bytes) => Ok(u128::from_be_bytes(bytes)),
        Err(_) if bytes.is_empty() => Err(DecodeError::Missing { what }),
        Err(_) => Err(DecodeError::Length { what, expected: ID_BYTES, found: bytes.len() }),
    }
}

/// Checks the length of text or bytes.
pub(crate) fn check_most(what: &'static str, len: usize, most: usize) -> Result<(), DecodeError> {
    if len > most { Err(DecodeError::TooMany { what, limit: most }) } else { Ok(()) }
}

/// Encodes a medium as its enum number.
pub(crate) fn from_medium(medium: Medium) -> i32 {
    match medium {
        Medium::Memory => proto::Medium::Memory.into(),
        Medium::Disk => proto::Medium::Disk.into(),
        Medium::SharedDisk => proto::Medium::SharedDisk.into(),
        Medium::ObjectStore => proto::Medium::ObjectStore.into(),
    }
}

/// Decodes the medium in a field.
pub(crate) fn to_medium(number: i32) -> Result<Medium, DecodeError> {
    match proto::Medium::try_from(number) {
        Ok(proto::Medium::Memory) => Ok(Medium::Memory),
        Ok(proto::Medium::Disk) => Ok(Medium::Disk),
        Ok(proto::Medium::SharedDisk) => Ok(Medium::SharedDisk),
        Ok(proto::Medium::ObjectStore) => Ok(Medium::ObjectStore),
        Err(_) => Err(DecodeError::OutOfRange { what: "medium", value: number.into() }),
    }
}

/// Encodes a column of ids: 16 bytes each, end to end.
pub(crate) fn from_ids(ids: impl ExactSizeIterator<Item = u128>) -> Bytes {
    let mut column = Vec::with_capacity(ids.len() * ID_BYTES);
    for id in ids {
        column.extend_from_slice(&id.to_be_bytes());
    }
    column.into()
}

/// Encodes a column of segment ids.
pub(crate) fn from_segments(ids: impl ExactSizeIterator<Item = SegmentId>) -> Bytes {
    from_ids(ids.map(|id| id.0))
}

/// Decodes a column of exactly `count` ids.
pub(crate) fn to_ids<'a>(
    what: &'static str,
    column: &'a [u8],
    count: usize,
) -> Result<impl ExactSizeIterator<Item = u128> + use<'a>, DecodeError> {
    check_len(what, column, count * ID_BYTES)?;
    let ids = column.as_chunks().0.iter();
    Ok(ids.map(|&bytes| u128::from_be_bytes(bytes)))
}

/// Decodes a column of exactly `count` segment ids.
pub(crate) fn to_segments<'a>(
    what: &'static str,
    column: &'a [u8],
    count: usize,
) -> Result<impl ExactSizeIterator<Item = SegmentId> + use<'a>, DecodeError> {
    Ok(to_ids(what, column, count)?.map(SegmentId))
}

/// Decodes a column of at most `limit` segment ids, whose length no other column gives.
pub(crate) fn to_segment_list(
    what: &'static str,
    column: &[u8],
    limit: usize,
) -> Result<Vec<SegmentId>, DecodeError> {
    let count = column.len() / ID_BYTES;
    if count > limit {
        return Err(DecodeError::TooMany { what, limit });
    }
    Ok(to_segments(what, column, count)?.collect())
}

/// Encodes a column of versions: two numbers each, epoch and counter.
pub(crate) fn from_versions(versions: impl ExactSizeIterator<Item = Version>) -> Vec<u64> {
    let mut column = Vec::with_capacity(versions.len() * 2);
    for version in versions {
        column.extend([version.epoch.0, version.counter]);
    }
    column
}

/// Decodes a column of exactly `count` versions.
pub(crate) fn to_versions<'a>(
    what: &'static str,
    column: &'a [u64],
    count: usize,
) -> Result<impl ExactSizeIterator<Item = Version> + use<'a>, DecodeError> {
    check_len(what, column, count * 2)?;
    let pairs = column.as_chunks::<2>().0.iter();
    Ok(pairs.map(|&[epoch, counter]| Version { epoch: Epoch(epoch), counter }))
}

/// Encodes a column of attributes, which is absent if all of them are empty.
pub(crate) fn from_attributes<'a>(
    attributes: impl Iterator<Item = &'a [u8]> + Clone,
) -> Vec<Bytes> {
    match attributes.clone().all(<[u8]>::is_empty) {
        true => Vec::new(),
        false => attributes.map(Bytes::copy_from_slice).collect(),
    }
}

/// Decodes a column of exactly `count` attributes. If the column is absent, all of them are empty.
pub(crate) fn to_attributes(
    column: &[Bytes],
    count: usize,
) -> Result<impl Iterator<Item = &[u8]>, DecodeError> {
    let (what, limit) = ("attributes", MAX_ATTRIBUTES_BYTES);
    if !column.is_empty() {
        check_len(what, column, count)?;
    }
    if column.iter().any(|bytes| bytes.len() > limit) {
        return Err(DecodeError::TooMany { what, limit });
    }
    Ok(column.iter().map(|bytes| &bytes[..]).chain(std::iter::repeat(&[][..])))
}

/// Encodes a column of seals, which is absent if there are none.
pub(crate) fn from_seals(seals: impl Iterator<Item = Seal> + Clone) -> Vec<u64> {
    match seals.clone().all(|seal| seal == Seal::NONE) {
        true => Vec::new(),
        false => seals.map(|seal| seal.0).collect(),
    }
}

/// Decodes a column of exactly `count` seals. If the column is absent, there are none.
pub(crate) fn to_seals<'a>(
    what: &'static str,
    column: &'a [u64],
    count: usize,
) -> Result<impl Iterator<Item = Seal> + use<'a>, DecodeError> {
    check_seals(what, column, count)?;
    Ok(column.iter().map(|&seal| Seal(seal)).chain(std::iter::repeat(Seal::NONE)))
}

/// Refuses a column of seals that is neither absent nor as long as its table.
pub(crate) fn check_seals(
    what: &'static str,
    column: &[u64],
    count: usize,
) -> Result<(), DecodeError> {
    if column.is_empty() { Ok(()) } else { check_len(what, column, count) }
}

/// Refuses a column whose length is not the number of rows of its table.
pub(crate) fn check_len<T>(
    what: &'static str,
    column: &[T],
    expected: usize,
) -> Result<(), DecodeError> {
    let found = column.len();
    if found == expected { Ok(()) } else { Err(DecodeError::Length { what, expected, found }) }
}

/// Decodes key `index` as text.
pub(crate) fn to_key((index, key): (usize, &Bytes)) -> Result<&str, DecodeError> {
    std::str::from_utf8(key).map_err(|_| DecodeError::NotUtf8 { index })
}

/// Decodes all keys as text.
pub(crate) fn to_keys(keys: &[Bytes]) -> Result<Vec<&str>, DecodeError> {
    keys.iter().enumerate().map(to_key).collect()
}
