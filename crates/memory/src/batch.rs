use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::retry_on_intr;
use rustix::net::{RecvFlags, SendFlags};

use crate::RawSlice;
use crate::system_call::retry;

/// Most pieces that one system call moves.
pub const MAX_BATCH_SLICES: usize = 128;

/// Whether a call may block on its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Block until something moves, or until the socket's own timeout has passed (`WouldBlock`).
    Block,
    /// Do not block: answer `WouldBlock` if nothing can move now.
    Now,
}

impl Wait {
    fn flag(self) -> libc::c_int {
        match self {
            Wait::Block => 0,
            Wait::Now => libc::MSG_DONTWAIT,
        }
    }
}

const _: () = assert!(size_of::<RawSlice<'_>>() == size_of::<libc::iovec>());
const _: () = assert!(align_of::<RawSlice<'_>>() == align_of::<libc::iovec>());
const _: () = assert!(std::mem::offset_of!(libc::iovec, iov_base) == 0);

/// The pieces of one call. They have the layout of the kernel's `iovec`. The batch around them borrows their memory.
struct Pieces {
    slices: [MaybeUninit<RawSlice<'static>>; MAX_BATCH_SLICES],
    count: usize,
    bytes: usize,
}

impl Pieces {
    fn new() -> Self {
        Self { slices: [const { MaybeUninit::uninit() }; MAX_BATCH_SLICES], count: 0, bytes: 0 }
    }

    fn push(&mut self, slice: RawSlice<'_>) -> bool {
        if slice.is_empty() {
            return true;
        }
        if self.count == MAX_BATCH_SLICES {
            return false;
        }
        // SAFETY: the batch around these pieces borrows their memory.
        self.slices[self.count].write(unsafe { RawSlice::new(slice.as_ptr(), slice.len()) });
        self.count += 1;
        self.bytes += slice.len();
        true
    }

    /// The `msghdr` that names the pieces. It points into `self`.
    fn message(&mut self) -> libc::msghdr {
        // SAFETY: a msghdr is plain numbers and pointers; all zero means no address and no control data.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.slices.as_mut_ptr().cast();
        message.msg_iovlen = self.count as _;
        message
    }
}

/// Pieces of memory for one system call, in order. The bytes are not copied, and nothing is allocated. `B` is the
/// borrow that the batch holds.
pub struct Batch<B> {
    pieces: Pieces,
    borrowed: PhantomData<B>,
}

/// Memory to send from.
pub type SendBatch<'a> = Batch<&'a [u8]>;

/// Memory to receive into.
pub type RecvBatch<'a> = Batch<&'a mut [u8]>;

impl<B> Default for Batch<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> Batch<B> {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self { pieces: Pieces::new(), borrowed: PhantomData }
    }

    /// Total length of all pieces, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.bytes
    }

    /// Whether the batch has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.bytes == 0
    }
}

impl<'a> SendBatch<'a> {
    /// Adds raw memory. Returns false, and adds nothing, if the batch is full.
    #[must_use]
    pub fn push(&mut self, slice: RawSlice<'a>) -> bool {
        self.pieces.push(slice)
    }

    /// Adds private bytes. Returns false, and adds nothing, if the batch is full.
    #[must_use]
    pub fn push_bytes(&mut self, bytes: &'a [u8]) -> bool {
        // SAFETY: the bytes stay borrowed for as long as the batch lives, and a sent piece is only read.
        self.pieces.push(unsafe { RawSlice::new(bytes.as_ptr().cast_mut(), bytes.len()) })
    }

    /// Sends as many of the bytes as the kernel takes, and returns their number. With `more`, the kernel may delay an
    /// incomplete last packet until further bytes follow.
    ///
    /// # Errors
    /// The error of `sendmsg`. Unmapped memory is an error (`EFAULT`), not a crash. No signal is raised.
    pub fn send(&mut self, socket: BorrowedFd<'_>, wait: Wait, more: bool) -> io::Result<usize> {
        let flags = wait.flag() | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
        let message = self.pieces.message();
        retry(|| {
            // SAFETY: `message` names the `count` initialised pieces inside `self`; the kernel checks that their
            // memory is mapped.
            unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) }
        })
    }
}

impl<'a> RecvBatch<'a> {
    /// Adds raw memory. Returns false, and adds nothing, if the batch is full.
    #[must_use]
    pub fn push(&mut self, slice: RawSlice<'a>) -> bool {
        self.pieces.push(slice)
    }

    /// Adds private bytes. Returns false, and adds nothing, if the batch is full.
    #[must_use]
    pub fn push_bytes(&mut self, bytes: &'a mut [u8]) -> bool {
        // SAFETY: the bytes stay exclusively borrowed for as long as the batch lives.
        self.pieces.push(unsafe { RawSlice::new(bytes.as_mut_ptr(), bytes.len()) })
    }

    /// Receives bytes into the pieces, and returns their number: at least one.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer has closed the connection, or the error of `recvmsg`. Unmapped memory is an error
    /// (`EFAULT`), not a crash.
    ///
    /// # Panics
    /// If the batch has no bytes.
    pub fn recv(&mut self, socket: BorrowedFd<'_>, wait: Wait) -> io::Result<usize> {
        assert!(
            self.pieces.bytes > 0,
            "a receive without room cannot be told from a closed connection"
        );
        let mut message = self.pieces.message();
        let count = retry(|| {
            // SAFETY: `message` names the `count` initialised pieces inside `self`. Each is writable: this batch
            // borrows it exclusively, or the caller of `RawSlice::new` allowed writing. The kernel checks the
            // mappings.
            unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, wait.flag()) }
        })?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

/// Sends as many of the private bytes as the kernel takes, and returns their number.
///
/// # Errors
/// As [`SendBatch::send`].
pub fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], wait: Wait) -> io::Result<usize> {
    let flags = SendFlags::from_bits_retain(wait.flag() as u32) | SendFlags::NOSIGNAL;
    Ok(retry_on_intr(|| rustix::net::send(socket, bytes, flags))?)
}

/// Receives bytes into the beginning of `bytes`, and returns their number: at least one.
///
/// # Errors
/// As [`RecvBatch::recv`].
///
/// # Panics
/// If `bytes` is empty.
pub fn recv_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8], wait: Wait) -> io::Result<usize> {
    assert!(!bytes.is_empty(), "a receive without room cannot be told from a closed connection");
    let flags = RecvFlags::from_bits_retain(wait.flag() as u32);
    match retry_on_intr(|| rustix::net::recv(socket, &mut *bytes, flags))?.0 {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::Buffer;

    const EFAULT: i32 = libc::EFAULT;

    fn nowhere() -> RawSlice<'static> {
        // SAFETY: only the kernel is given this address, and it answers EFAULT.
        unsafe { RawSlice::new(std::ptr::without_provenance_mut(16), 4096) }
    }

    #[test]
    fn pieces_arrive_in_order() {
        let (left, right) = UnixStream::pair().unwrap();
        let source = Buffer::from_vec(b"0123456789".to_vec());
        let mut send = SendBatch::new();
        assert!(send.push_bytes(b"head") && send.push(source.raw().sub(2, 3)));
        assert!(send.push(RawSlice::EMPTY) && send.push_bytes(b"tail"));
        assert_eq!((send.len(), send.send(left.as_fd(), Wait::Block, false).unwrap()), (11, 11));

        let (mut head, target) = ([0; 6], Buffer::zeroed(8));
        let mut recv = RecvBatch::new();
        assert!(recv.push_bytes(&mut head) && recv.push(target.raw()));
        assert_eq!(recv.recv(right.as_fd(), Wait::Block).unwrap(), 11);
        assert_eq!((&head, target.as_slice()), (b"head23", &b"4tail\0\0\0"[..]));
    }

    #[test]
    fn a_full_batch_takes_no_more() {
        let mut batch = SendBatch::new();
        for _ in 0..MAX_BATCH_SLICES {
            assert!(batch.push_bytes(b"x"));
        }
        assert!(!batch.push_bytes(b"y"));
        assert_eq!(batch.len(), MAX_BATCH_SLICES);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut send = SendBatch::new();
        assert!(send.push(nowhere()));
        let error = send.send(left.as_fd(), Wait::Block, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EFAULT));

        let mut send = SendBatch::new();
        assert!(send.push_bytes(b"bytes"));
        send.send(left.as_fd(), Wait::Block, false).unwrap();
        let mut recv = RecvBatch::new();
        assert!(recv.push(nowhere()));
        let error = recv.recv(right.as_fd(), Wait::Block).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EFAULT));
    }

    #[test]
    fn nothing_there_and_nobody_there_are_told_apart() {
        let (left, right) = UnixStream::pair().unwrap();
        let mut byte = [0];
        let alone = |byte: &mut [u8]| recv_bytes(right.as_fd(), byte, Wait::Now);
        assert_eq!(alone(&mut byte).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(send_bytes(left.as_fd(), b"x", Wait::Now).unwrap(), 1);
        assert_eq!((alone(&mut byte).unwrap(), byte), (1, *b"x"));
        let mut recv = RecvBatch::new();
        assert!(recv.push_bytes(&mut byte));
        let empty = recv.recv(right.as_fd(), Wait::Now).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        drop(left);
        let closed = recv.recv(right.as_fd(), Wait::Now).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
        let closed = recv_bytes(right.as_fd(), &mut [0], Wait::Block).unwrap_err();
        assert_eq!(closed.kind(), io::ErrorKind::UnexpectedEof);
    }
}
