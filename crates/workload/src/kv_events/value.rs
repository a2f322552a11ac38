//! Reads MessagePack values from memory.

use rmp::Marker;
use rmp::decode::read_marker;

/// Most lists within each other; events have four.
const MAX_DEPTH: u32 = 16;

/// A value of MessagePack, as events have them.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A whole number, signed or not.
    Number(i128),
    /// A fraction.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes that are no text.
    Bytes(&'a [u8]),
    /// Values in their order.
    List(Vec<Value<'a>>),
    /// Pairs of a name and a value.
    Map(Vec<(Value<'a>, Value<'a>)>),
}

/// Why bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// The bytes end within the value.
    Cut,
    /// The value has a type that events do not use, or is malformed.
    Wrong,
}

/// Reads the value at the start of `bytes`, and advances past it.
///
/// # Errors
/// See [`NoValue`].
pub fn read<'a>(bytes: &mut &'a [u8]) -> Result<Value<'a>, NoValue> {
    read_within(bytes, MAX_DEPTH)
}

fn read_within<'a>(bytes: &mut &'a [u8], depth: u32) -> Result<Value<'a>, NoValue> {
    let marker = read_marker(bytes).map_err(|_| NoValue::Cut)?;
    let value = match marker {
        Marker::Null => Value::Nil,
        Marker::True => Value::Bool(true),
        Marker::False => Value::Bool(false),
        Marker::FixPos(number) => Value::Number(number.into()),
        Marker::FixNeg(number) => Value::Number(number.into()),
        Marker::U8 => Value::Number(unsigned(bytes, 1)?.into()),
        Marker::U16 => Value::Number(unsigned(bytes, 2)?.into()),
        Marker::U32 => Value::Number(unsigned(bytes, 4)?.into()),
        Marker::U64 => Value::Number(unsigned(bytes, 8)?.into()),
        Marker::I8 => Value::Number((unsigned(bytes, 1)? as i8).into()),
        Marker::I16 => Value::Number((unsigned(bytes, 2)? as i16).into()),
        Marker::I32 => Value::Number((unsigned(bytes, 4)? as i32).into()),
        Marker::I64 => Value::Number(unsigned(bytes, 8)?.cast_signed().into()),
        Marker::F32 => Value::Float(f32::from_bits(unsigned(bytes, 4)? as u32).into()),
        Marker::F64 => Value::Float(f64::from_bits(unsigned(bytes, 8)?)),
        Marker::FixStr(len) => text(bytes, len.into())?,
        Marker::Str8 => sized(bytes, 1, text)?,
        Marker::Str16 => sized(bytes, 2, text)?,
        Marker::Str32 => sized(bytes, 4, text)?,
        Marker::Bin8 => sized(bytes, 1, binary)?,
        Marker::Bin16 => sized(bytes, 2, binary)?,
        Marker::Bin32 => sized(bytes, 4, binary)?,
        Marker::FixArray(len) => list(bytes, len.into(), depth)?,
        Marker::Array16 => sized(bytes, 2, |bytes, len| list(bytes, len, depth))?,
        Marker::Array32 => sized(bytes, 4, |bytes, len| list(bytes, len, depth))?,
        Marker::FixMap(len) => map(bytes, len.into(), depth)?,
        Marker::Map16 => sized(bytes, 2, |bytes, len| map(bytes, len, depth))?,
        Marker::Map32 => sized(bytes, 4, |bytes, len| map(bytes, len, depth))?,
        _ => return Err(NoValue::Wrong),
    };
    Ok(value)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], NoValue> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(NoValue::Cut)?;
    *bytes = rest;
    Ok(taken)
}

fn unsigned(bytes: &mut &[u8], len: usize) -> Result<u64, NoValue> {
    let taken = take(bytes, len)?;
    Ok(taken.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn sized<'a>(
    bytes: &mut &'a [u8],
    len_bytes: usize,
    then: impl FnOnce(&mut &'a [u8], usize) -> Result<Value<'a>, NoValue>,
) -> Result<Value<'a>, NoValue> {
    let len = unsigned(bytes, len_bytes)? as usize;
    then(bytes, len)
}

fn text<'a>(bytes: &mut &'a [u8], len: usize) -> Result<Value<'a>, NoValue> {
    str::from_utf8(take(bytes, len)?).map(Value::Text).map_err(|_| NoValue::Wrong)
}

fn binary<'a>(bytes: &mut &'a [u8], len: usize) -> Result<Value<'a>, NoValue> {
    take(bytes, len).map(Value::Bytes)
}

/// Checks a count of items before memory is reserved: each item takes at least one byte. Returns the depth left for
/// the items.
fn items(bytes: &[u8], count: usize, depth: u32) -> Result<u32, NoValue> {
    if count > bytes.len() {
        return Err(NoValue::Cut);
    }
    depth.checked_sub(1).ok_or(NoValue::Wrong)
}

fn list<'a>(bytes: &mut &'a [u8], len: usize, depth: u32) -> Result<Value<'a>, NoValue> {
    let depth = items(bytes, len, depth)?;
    (0..len).map(|_| read_within(bytes, depth)).collect::<Result<_, _>>().map(Value::List)
}

fn map<'a>(bytes: &mut &'a [u8], len: usize, depth: u32) -> Result<Value<'a>, NoValue> {
    let depth = items(bytes, len, depth)?;
    let pair = |_| Ok((read_within(bytes, depth)?, read_within(bytes, depth)?));
    (0..len).map(pair).collect::<Result<_, _>>().map(Value::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_length_are_read() {
        let long = [&[0xC4, 3][..], &[1, 2, 3]].concat();
        let rows: &[(&[u8], Result<Value<'_>, NoValue>)] = &[
            (&[0xC0], Ok(Value::Nil)),
            (&[7], Ok(Value::Number(7))),
            (&[0xE0], Ok(Value::Number(-32))),
            (&[0xCF, 255, 255, 255, 255, 255, 255, 255, 255], Ok(Value::Number(u64::MAX.into()))),
            (&[0xD3, 255, 255, 255, 255, 255, 255, 255, 254], Ok(Value::Number(-2))),
            (&[0xD0, 0x80], Ok(Value::Number(-128))),
            (&[0xCB, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0], Ok(Value::Float(1.5))),
            (&[0xA1, b'x'], Ok(Value::Text("x"))),
            (&long, Ok(Value::Bytes(&[1, 2, 3]))),
            (&[0x92, 1, 0xC0], Ok(Value::List(vec![Value::Number(1), Value::Nil]))),
            (&[0x81, 0xA1, b'x', 1], Ok(Value::Map(vec![(Value::Text("x"), Value::Number(1))]))),
            (&[], Err(NoValue::Cut)),
            (&[0xCF, 1], Err(NoValue::Cut)),
            (&[0xDD, 255, 255, 255, 255, 0], Err(NoValue::Cut)),
            (&[0xA1, 0xFF], Err(NoValue::Wrong)),
            (&[0xC1], Err(NoValue::Wrong)),
            (&[0x91; 40], Err(NoValue::Wrong)),
        ];
        for (bytes, expected) in rows {
            assert_eq!(read(&mut &bytes[..]), *expected, "{bytes:?}");
        }
    }
}
