use std::io::{self, ErrorKind, Read};

/// Longest string that is read, in bytes.
const MAX_STRING_BYTES: usize = 4 << 20;

/// Longest line, in bytes: numbers, states and messages of errors.
const MAX_LINE_BYTES: usize = 4096;

/// Most elements of an array; arrays do not nest.
const MAX_ELEMENTS: usize = 16;

/// The reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A string of any bytes, or a state.
    Text(Vec<u8>),
    Number(i64),
    Nil,
    /// An array of plain values.
    Array(Vec<Reply>),
    /// The server refused the command.
    Refused(String),
}

/// Reads one reply in the second version of the protocol, with limits on all of it.
///
/// # Errors
/// The source's, and those of kind `InvalidData` for bytes that are no reply, or too long.
pub(super) fn read_reply(source: &mut impl Read) -> io::Result<Reply> {
    let line = read_line(source)?;
    if line.first() != Some(&b'*') {
        return read_plain(source, &line);
    }
    let count = parse_number(&line[1..])?;
    let Ok(count) = usize::try_from(count) else { return Ok(Reply::Nil) };
    if count > MAX_ELEMENTS {
        return Err(garbage("an array is too long"));
    }
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let line = read_line(source)?;
        elements.push(read_plain(source, &line)?);
    }
    Ok(Reply::Array(elements))
}

fn read_plain(source: &mut impl Read, line: &[u8]) -> io::Result<Reply> {
    match line.split_first() {
        Some((b'+', text)) => Ok(Reply::Text(text.to_vec())),
        Some((b'-', text)) => Ok(Reply::Refused(String::from_utf8_lossy(text).into_owned())),
        Some((b':', digits)) => parse_number(digits).map(Reply::Number),
        Some((b'$', digits)) => match usize::try_from(parse_number(digits)?) {
            Ok(len) => read_text(source, len).map(Reply::Text),
            Err(_) => Ok(Reply::Nil),
        },
        _ => Err(garbage("it is no reply of Redis")),
    }
}

fn read_text(source: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    if len > MAX_STRING_BYTES {
        return Err(garbage("a string is too long"));
    }
    let mut text = vec![0; len + 2];
    source.read_exact(&mut text)?;
    match text.ends_with(b"\r\n") {
        true => text.truncate(len),
        false => return Err(garbage("a string does not end where it says")),
    }
    Ok(text)
}

/// A line without its end. The source should be buffered: bytes are read one by one.
fn read_line(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        if line.len() >= MAX_LINE_BYTES {
            return Err(garbage("a line is too long"));
        }
        source.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    Ok(line)
}

fn parse_number(digits: &[u8]) -> io::Result<i64> {
    let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| garbage("a number was expected"))
}

fn garbage(reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Reply {
        Reply::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn replies_are_read() {
        for (bytes, expected) in [
            ("+OK\r\n", text("OK")),
            ("-WRONGTYPE no\r\n", Reply::Refused("WRONGTYPE no".to_owned())),
            (":-12\r\n", Reply::Number(-12)),
            ("$5\r\na\r\nbc\r\n", text("a\r\nbc")),
            ("$0\r\n\r\n", text("")),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("*0\r\n", Reply::Array(vec![])),
            ("*3\r\n$1\r\na\r\n:1\r\n$-1\r\n", {
                Reply::Array(vec![text("a"), Reply::Number(1), Reply::Nil])
            }),
        ] {
            let mut source = bytes.as_bytes();
            assert_eq!(read_reply(&mut source).expect(bytes), expected, "{bytes:?}");
            assert!(source.is_empty(), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for (bytes, reason) in [
            ("HTTP/1.1 400 Bad Request\r\n", "it is no reply of Redis"),
            ("\r\n", "it is no reply of Redis"),
            (":x\r\n", "a number was expected"),
            ("$\r\n", "a number was expected"),
            ("$3\r\nabcde", "a string does not end where it says"),
            ("$4194305\r\n", "a string is too long"),
            ("$9223372036854775807\r\n", "a string is too long"),
            ("*17\r\n", "an array is too long"),
            ("*1\r\n*1\r\n:1\r\n", "it is no reply of Redis"),
            (&"+".repeat(5000), "a line is too long"),
            ("$5\r\nabc", "failed to fill whole buffer"),
            ("", "failed to fill whole buffer"),
        ] {
            let refused = read_reply(&mut bytes.as_bytes()).expect_err(bytes).to_string();
            assert!(refused.contains(reason), "{bytes:?}: {refused}");
        }
    }
}
