//! The part of ZeroMQ's wire protocol that a publisher needs, of ZMTP 3.0 (rfc.zeromq.org/spec/23): messages of frames.
//! How two peers greet each other is in `greeting.rs`.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const MORE: u8 = 1;
const LONG: u8 = 2;
pub(crate) const COMMAND: u8 = 4;
/// Most bytes of a message from a subscriber or from a client of replays.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 10;
const MAX_FRAMES: usize = 16;
const MAX_SHORT_FRAME: usize = u8::MAX as usize;

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

/// The next frame: its flags, and at most `most` bytes.
pub(crate) async fn read_frame(
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

pub(crate) fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use tokio::io::{join, sink};

    use super::*;
    use crate::greeting::{Security, greet};

    const GREETING_BYTES: usize = 64;

    /// What a subscriber sends: a greeting, its kind of socket, and a message of three frames, one of them long.
    fn peer() -> Vec<u8> {
        let mut bytes = vec![0; GREETING_BYTES];
        (bytes[0], bytes[9], bytes[10]) = (0xff, 0x7f, 3);
        bytes[12..16].copy_from_slice(b"NULL");
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
        greet(&mut stream, "PUB", &["SUB"], Security::Open).await?;
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
