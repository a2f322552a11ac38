//! What both ends do with a TCP socket.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use mooncake_memory::{RawSlice, SendBatch, Wait};
use socket2::{SockRef, TcpKeepalive};

/// An idle connection asks after its peer this often.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// A peer that acknowledges nothing for this long is gone.
const PEER_SILENCE: Duration = Duration::from_secs(5);

/// Options of every connection: packets leave at once, and a host that vanished is noticed. The kernel sizes the
/// buffers: a fixed size turns its own sizing off.
pub(crate) fn tune(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive =
        TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(Duration::from_secs(2));
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(PEER_SILENCE))
}

/// Sends `head` and then all of `slices`, waiting as the socket's own timeout allows for each bit of progress. With
/// `more`, the last incomplete packet may wait for what the caller sends next.
pub(crate) fn send_all(
    stream: &TcpStream,
    head: &[u8],
    slices: &[RawSlice],
    more: bool,
) -> io::Result<()> {
    let mut head = head;
    let (mut at, mut skip) = (0, 0);
    while !head.is_empty() || at < slices.len() {
        let mut batch = SendBatch::new();
        let mut fits = batch.push_bytes(head);
        for (index, slice) in slices[at..].iter().enumerate() {
            let from = if index == 0 { skip } else { 0 };
            fits = fits && batch.push(slice.sub(from, slice.len() - from));
            if !fits {
                break;
            }
        }
        let mut sent = if batch.is_empty() {
            0
        } else {
            batch.send(stream.as_fd(), Wait::Block, more || !fits)?
        };
        let of_head = sent.min(head.len());
        head = &head[of_head..];
        sent -= of_head;
        while at < slices.len() && sent >= slices[at].len() - skip && head.is_empty() {
            sent -= slices[at].len() - skip;
            (at, skip) = (at + 1, 0);
        }
        skip += sent;
    }
    Ok(())
}
