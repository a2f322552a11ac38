//! The part of ZeroMQ's wire protocol that a publisher needs, of ZMTP 3.0 (rfc.zeromq.org/spec/23): the greeting
//! without security, and messages of frames.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// How long a peer may take for the greeting.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

const GREETING_BYTES: usize = 64;
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Most bytes of a message from a subscriber or from a client of replays.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
const MAX_FRAMES: usize = 16;
const MAX_SHORT_FRAME: usize = u8::MAX as usize;

/// Greets a peer as a socket of type `own`.
///
/// # Errors
/// If the peer is gone, does not speak this protocol, or has none of the socket types in `peers`.
pub(crate) async fn greet(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    own: &str,
    peers: &[&str],
) -> io::Result<()> {
    let mut greeting = [0; GREETING_BYTES];
    (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
    greeting[12..32].copy_from_slice(MECHANISM);
    stream.write_all(&greeting).await?;
    let mut theirs = [0; GREETING_BYTES];
    stream.read_exact(&mut theirs).await?;
    if (theirs[0], theirs[9]) != (0xff, 0x7f) || theirs[10] < 3 {
        return Err(wrong("it does not speak ZeroMQ, or a version before 4.0"));
    }
    if theirs[12..32] != *MECHANISM {
        return Err(wrong("it wants encryption or a password, which are not served"));
    }
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend((own.len() as u32).to_be_bytes());
    ready.extend(own.as_bytes());
    stream.write_all(&[COMMAND, ready.len() as u8]).await?;
    stream.write_all(&ready).await?;
    let (flags, body) = read_frame(stream, MAX_MESSAGE_BYTES).await?;
    let kind = (flags & COMMAND != 0).then(|| socket_type(&body)).flatten();
    match kind {
        Some(kind) if peers.contains(&kind) => Ok(()),
        Some(kind) => Err(wrong(&format!("a {own} socket serves no {kind} socket"))),
        None => Err(wrong("it does not say what kind of socket it is")),
    }
}

/// The socket type in a peer's READY command.
fn socket_type(ready: &[u8]) -> Option<&str> {
    let mut properties = ready.strip_prefix(b"\x05READY")?;
    while !properties.is_empty() {
        let (&len, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(len))?;
        let (len, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return std::str::from_utf8(value).ok();
        }
        properties = rest;
    }
    None
}

/// Reads the frames of the next message. Commands are skipped.
///
/// # Errors
/// If the peer is gone, or sends too much.
pub(crate) async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Vec<Vec<u8>>> {
    read_message_of(stream, MAX_MESSAGE_BYTES).await
}

/// As [`read_message`], for messages of at most `most` bytes.
///
/// # Errors
/// Those of [`read_message`].
pub(crate) async fn read_message_of(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Vec<Vec<u8>>> {
    let (mut frames, mut left) = (Vec::new(), most);
    loop {
        let (flags, body) = read_frame(stream, left).await?;
        if flags & COMMAND != 0 {
            continue;
        }
        left -= body.len();
        frames.push(body);
        if flags & MORE == 0 {
            return Ok(frames);
        }
        if frames.len() == MAX_FRAMES {
            return Err(wrong("it sends too many frames"));
        }
    }
}

async fn read_frame(
    stream: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<(u8, Vec<u8>)> {
    let flags = stream.read_u8().await?;
    let len = match flags & LONG {
        0 => u64::from(stream.read_u8().await?),
        _ => stream.read_u64().await?,
    };
    let len = usize::try_from(len).ok().filter(|&len| len <= most);
    let mut body = vec![0; len.ok_or_else(|| wrong("it sends too much"))?];
    stream.read_exact(&mut body).await?;
    Ok((flags, body))
}

/// Sends a message.
///
/// # Errors
/// If the peer is gone.
pub(crate) async fn write_message(
    stream: &mut (impl AsyncWrite + Unpin),
    frames: &[&[u8]],
) -> io::Result<()> {
    let mut head = Vec::new();
    for (at, frame) in frames.iter().enumerate() {
        let more = if at + 1 < frames.len() { MORE } else { 0 };
        match u8::try_from(frame.len()) {
            Ok(len) => head.extend([more, len]),
            Err(_) => {
                head.push(more | LONG);
                head.extend((frame.len() as u64).to_be_bytes());
            }
        }
        // Short frames are sent in one packet.
        if frame.len() <= MAX_SHORT_FRAME {
            head.extend(*frame);
        } else {
            stream.write_all(&head).await?;
            head.clear();
            stream.write_all(frame).await?;
        }
    }
    stream.write_all(&head).await
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use tokio::io::{join, sink};

    use super::*;

    /// What a subscriber sends: a greeting, its kind of socket, and a message of three frames, one of them long.
    fn peer() -> Vec<u8> {
        let mut bytes = vec![0; GREETING_BYTES];
        (bytes[0], bytes[9], bytes[10]) = (0xff, 0x7f, 3);
        bytes[12..32].copy_from_slice(MECHANISM);
        let ready = b"\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0";
        bytes.extend([COMMAND, ready.len() as u8]);
        bytes.extend(ready);
        bytes.extend([MORE, 2, 7, 8, MORE | LONG]);
        bytes.extend(300_u64.to_be_bytes());
        bytes.extend([9; 300]);
        bytes.extend([0, 1, 1]);
        bytes
    }

    async fn read_all(bytes: &[u8]) -> io::Result<usize> {
        let mut stream = join(bytes, sink());
        greet(&mut stream, "PUB", &["SUB"]).await?;
        let mut messages = 0;
        while let Ok(frames) = read_message(&mut stream).await {
            assert!(frames.len() <= MAX_FRAMES);
            assert!(frames.iter().map(Vec::len).sum::<usize>() <= MAX_MESSAGE_BYTES);
            messages += 1;
        }
        Ok(messages)
    }

    #[test]
    fn no_bytes_of_a_peer_end_the_publisher() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (whole, mut state, mut greeted) = (peer(), 0x2545_f491_4f6c_dd1d_u64, 0);
        assert_eq!(runtime.block_on(read_all(&whole)).ok(), Some(1));
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % bound as u64) as usize
        };
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=below(3) {
                let at = below(bytes.len());
                let len = [1, 8][below(2)].min(bytes.len() - at);
                bytes[at..at + len].fill([0, 1, 0xff, below(256) as u8][below(4)]);
            }
            bytes.truncate(bytes.len() - below(20));
            greeted += usize::from(runtime.block_on(read_all(&bytes)).is_ok());
        }
        assert!(greeted > 1_000, "{greeted} got past the greeting");
    }
}
