//! Frames, and descriptors, over a socket between two processes of one host.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use mooncake_memory::{Wait, recv_with_descriptors, send_with_descriptors};
use rustix::net::{RecvFlags, recv};

use super::protocol::{HEAD_LEN, Head, Malformed};

/// Bytes of a body that room is made for before they have arrived.
const STEP: usize = 1 << 20;

/// Why no frame went through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    /// The other side is gone, between two frames.
    #[error("the connection is closed")]
    Closed,
    /// Nothing came, or nothing could be sent, for as long as the socket waits.
    #[error("there was no answer in time")]
    TimedOut,
    /// What came is no frame.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The socket broke.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Broken(error.to_string()),
        }
    }
}

/// Sends a whole frame, and a descriptor with its first byte.
pub(super) fn send(
    stream: &UnixStream,
    frame: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), LineError> {
    let descriptors = descriptor.as_slice();
    Ok(send_with_descriptors(stream.as_fd(), frame, descriptors)?)
}

/// What [`receive`] received, besides the body.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) kind: u8,
    pub(super) descriptor: Option<OwnedFd>,
}

/// Receives one frame of at most `longest` bytes of body, which replaces what is in `body`.
pub(super) fn receive(
    stream: &UnixStream,
    longest: usize,
    body: &mut Vec<u8>,
) -> Result<Received, LineError> {
    let (head, descriptor) = receive_head(stream)?;
    let Head { kind, body_len } = Head::decode(&head, longest)?;
    body.clear();
    let mut left = body_len as usize;
    while left > 0 {
        let from = body.len();
        body.resize(from + left.min(STEP), 0);
        let mut stream = stream;
        match stream.read(&mut body[from..]) {
            Ok(0) => return Err(LineError::Broken("it ended within a frame".to_owned())),
            Ok(count) => {
                body.truncate(from + count);
                left -= count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => body.truncate(from),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Received { kind, descriptor })
}

fn receive_head(stream: &UnixStream) -> Result<([u8; HEAD_LEN], Option<OwnedFd>), LineError> {
    let mut head = [0; HEAD_LEN];
    let mut descriptors = Vec::new();
    let mut filled = 0;
    while filled < HEAD_LEN {
        match recv_with_descriptors(
            stream.as_fd(),
            &mut head[filled..],
            &mut descriptors,
            Wait::Block,
        )? {
            0 if filled == 0 => return Err(LineError::Closed),
            0 => return Err(LineError::Broken("it ended within a frame".to_owned())),
            count => filled += count,
        }
    }
    // Those that nobody asked for are closed at once.
    Ok((head, descriptors.pop()))
}

/// Whether the other side is still there, as far as can be told without waiting.
pub(super) fn is_open(stream: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match recv(stream.as_fd(), &mut byte[..], flags) {
        // Nothing is sent unasked: an end, or a frame that says goodbye.
        Ok(_) => false,
        Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::protocol::frame;
    use super::*;

    fn sent(bytes: &[u8]) -> Result<(u8, Vec<u8>), LineError> {
        let (mut left, right) = UnixStream::pair().expect("a pair of sockets");
        left.write_all(bytes).expect("it is short");
        drop(left);
        let mut body = vec![9; 3];
        receive(&right, 100, &mut body).map(|received| (received.kind, body))
    }

    #[test]
    fn a_frame_and_its_descriptor_arrive() {
        let (left, right) = UnixStream::pair().expect("a pair of sockets");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let frame = frame(7, |out| out.text("hello"));
        send(&left, &frame, Some(writer.as_fd())).expect("there is room");
        drop(writer);
        send(&left, &frame, None).expect("there is room");
        let mut body = Vec::new();
        let received = receive(&right, 100, &mut body).expect("it is there");
        assert_eq!((received.kind, &body[..]), (7, &b"\x05\0\0\0hello"[..]));
        let mut writer = io::PipeWriter::from(received.descriptor.expect("it came along"));
        writer.write_all(b"through").expect("it is open");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("it is open");
        assert_eq!(text, "through");
        assert!(receive(&right, 100, &mut body).expect("the second").descriptor.is_none());
        assert!(is_open(&right));
        drop(left);
        assert!(!is_open(&right));
    }

    #[test]
    fn what_is_no_frame_is_told_from_an_end() {
        let good = frame(3, |out| out.u64(5));
        assert_eq!(sent(&good), Ok((3, 5_u64.to_le_bytes().to_vec())));
        let within = LineError::Broken("it ended within a frame".to_owned());
        assert_eq!(sent(&[]), Err(LineError::Closed));
        for end in 1..good.len() {
            assert_eq!(sent(&good[..end]), Err(within.clone()), "{end} bytes");
        }
        let wrong = LineError::Malformed(Malformed("its head is not that of a frame"));
        for at in [0, 3, 5, 7] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(sent(&bad), Err(wrong.clone()), "byte {at}");
        }
        let mut long = good;
        long[8..12].copy_from_slice(&101_u32.to_le_bytes());
        assert_eq!(sent(&long), Err(LineError::Malformed(Malformed("it is too long"))));
    }
}
