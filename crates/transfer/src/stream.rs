//! Sends frames with payload, for both ends.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;

use mooncake_memory::{RawSlice, SendBatch, Wait};

/// Sends `head` and then all of `slices`. Each step may wait for as long as the socket's own timeout allows. With
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
