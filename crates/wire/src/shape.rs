//! Checks on the encoded bytes, before anything is allocated, that no list of a message is longer than its limit.
//!
//! An empty key or an empty sub-message takes two bytes of input and up to 80 bytes once decoded. So this module
//! counts the elements of lists of keys and messages first. Packed columns need no count: an element costs at most
//! four times its bytes, and the decoders compare their lengths with the number of rows.

use crate::DecodeError;
use crate::field::Field;
use crate::generated_fields::MOST_FIELDS;

/// Refuses a body in which a list of `fields` is too long, or that is not protobuf.
pub(crate) fn check(body: &[u8], fields: &'static [Field]) -> Result<(), DecodeError> {
    walk(Cursor { bytes: body, at: 0 }, fields)
}

fn walk(mut cursor: Cursor<'_>, fields: &'static [Field]) -> Result<(), DecodeError> {
    let mut counts = [0; MOST_FIELDS];
    while cursor.at < cursor.bytes.len() {
        let start = cursor.at;
        let malformed = DecodeError::Malformed { at: start };
        let Some((number, element)) = cursor.field() else { return Err(malformed) };
        let Some(element) = element else { continue };
        let Some(index) = fields.iter().position(|field| field.number == number) else { continue };
        let field = &fields[index];
        counts[index] += 1;
        if counts[index] > field.limit {
            return Err(DecodeError::TooMany { what: field.name, limit: field.limit });
        }
        if !field.fields.is_empty() {
            walk(element, field.fields)?;
        }
    }
    Ok(())
}

/// A position in a body. `bytes` always begins at the start of the body, so that errors give offsets in the body.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The number of the next field, and its content if the field is length-delimited. `None` if no whole field
    /// follows.
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
            // Groups, which this schema does not use, and undefined wire types.
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
