//! Sends bytes and descriptors over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::Wait;

/// Most descriptors that one message carries.
pub const MAX_DESCRIPTORS: usize = 2;

/// Sends all bytes. The descriptors travel with the first of them.
///
/// # Errors
/// The kernel's error. No signal is raised.
///
/// # Panics
/// If there are more than [`MAX_DESCRIPTORS`].
pub fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut sent = 0;
    while sent < bytes.len() {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if sent == 0 && !descriptors.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(fits, "there is room for {MAX_DESCRIPTORS} descriptors");
        }
        let pieces = [IoSlice::new(&bytes[sent..])];
        sent += retry_on_intr(|| sendmsg(socket, &pieces, &mut control, SendFlags::NOSIGNAL))?;
    }
    Ok(())
}

/// Receives some bytes and returns their number, zero at the end of the stream. Adds received descriptors to
/// `descriptors`, with close-on-exec set. Closes all beyond [`MAX_DESCRIPTORS`] at once.
///
/// # Errors
/// The kernel's error. `WouldBlock` if nothing has arrived: at once with [`Wait::Now`], otherwise after the socket's
/// own timeout.
pub fn recv_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    wait: Wait,
) -> io::Result<usize> {
    let flags = match wait {
        Wait::Block => RecvFlags::CMSG_CLOEXEC,
        Wait::Now => RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut room = [IoSliceMut::new(bytes)];
    let message = retry_on_intr(|| recvmsg(socket, &mut room, &mut control, flags))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    descriptors.truncate(MAX_DESCRIPTORS);
    Ok(message.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send_with_descriptors(left.as_fd(), b"two", &[writer.as_fd(), writer.as_fd()]).unwrap();
        send_with_descriptors(left.as_fd(), b"none", &[]).unwrap();
        drop((left, writer));
        let (mut bytes, mut descriptors) = ([0; 3], Vec::new());
        let mut recv = |bytes: &mut [u8]| {
            recv_with_descriptors(right.as_fd(), bytes, &mut descriptors, Wait::Block).unwrap()
        };
        assert_eq!((recv(&mut bytes), bytes), (3, *b"two"));
        let mut rest = [0; 10];
        assert_eq!((recv(&mut rest), &rest[..4]), (4, b"none".as_slice()));
        assert_eq!(recv(&mut rest), 0);
        assert_eq!(descriptors.len(), 2);
        let mut writer = io::PipeWriter::from(descriptors.swap_remove(0));
        writer.write_all(b"through").unwrap();
        drop((writer, descriptors));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
