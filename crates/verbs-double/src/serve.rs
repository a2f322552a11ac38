//! The side of a NIC that serves the requests of peers.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::link::{Head, PIECE, send_word};
use crate::state::{Peer, REMOTE_READ, REMOTE_WRITE, SUCCESS, pass_gate, state};

/// Writes that were acknowledged land after this long, if no read makes them land before.
const LATE: Duration = Duration::from_millis(30);

/// Bytes of a write that was acknowledged and has not landed.
struct Piece {
    head: Head,
    address: u64,
    bytes: Vec<u8>,
}

/// Serves a queue pair of a peer until it ends. What has not landed by then does so late, if it may.
pub(crate) fn serve(mut stream: UnixStream) {
    let mut late = VecDeque::new();
    let _ = serve_all(&mut stream, &mut late);
    land(&mut late);
}

fn serve_all(stream: &mut UnixStream, late: &mut VecDeque<Piece>) -> io::Result<()> {
    loop {
        stream.set_read_timeout((!late.is_empty()).then_some(LATE))?;
        let mut first = [0];
        match stream_peek(stream, &mut first) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                land(late);
                continue;
            }
            Err(error) => return Err(error),
            Ok(0) => return Ok(()),
            Ok(_) => stream.set_read_timeout(None)?,
        }
        let head = Head::receive(stream)?;
        if head.is_write {
            serve_write(stream, head, late)?;
        } else {
            land(late);
            serve_read(stream, head)?;
        }
    }
}

/// Waits for a byte, and leaves it where it is.
fn stream_peek(stream: &UnixStream, into: &mut [u8; 1]) -> io::Result<usize> {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor lives, and there is room for a byte.
    let count =
        unsafe { libc::recv(stream.as_raw_fd(), into.as_mut_ptr().cast(), 1, libc::MSG_PEEK) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Where a request comes from, and which NIC it came to.
fn peer_of(head: &Head) -> Peer {
    Peer { process: Some(head.process), nic: head.nic, number: head.from }
}

/// Takes the bytes of a write and acknowledges it. They are not in memory yet.
fn serve_write(stream: &mut UnixStream, head: Head, late: &mut VecDeque<Piece>) -> io::Result<()> {
    let mut done = 0;
    while done < head.len {
        let mut bytes = vec![0; (head.len - done).min(PIECE as u64) as usize];
        stream.read_exact(&mut bytes)?;
        let address = head.address.wrapping_add(done);
        done += bytes.len() as u64;
        late.push_back(Piece { head, address, bytes });
    }
    let range = (head.address, head.len);
    let status = state().admits(head.to, peer_of(&head), head.key, range, REMOTE_WRITE);
    if status != SUCCESS {
        late.retain(|piece| piece.head.address != head.address || piece.head.key != head.key);
    }
    send_word(stream, status)
}

/// Writes what was acknowledged to memory, a piece at a time, if it may be written at that moment.
fn land(late: &mut VecDeque<Piece>) {
    while let Some(Piece { head, address, bytes }) = late.pop_front() {
        pass_gate();
        let mut state = state();
        let range = (address, bytes.len() as u64);
        if state.admits(head.to, peer_of(&head), head.key, range, REMOTE_WRITE) != SUCCESS {
            state.counts.lost_pieces += 1;
            continue;
        }
        // SAFETY: the range lies in memory that is registered now, and that its owner keeps mapped until it has taken
        // the registration back, for which it needs the lock.
        unsafe {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(state.place(head.key, address));
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        drop(state);
        std::thread::yield_now();
    }
}

/// Sends memory a piece at a time, each with its length before it; then zero, and how it ended.
fn serve_read(stream: &mut UnixStream, head: Head) -> io::Result<()> {
    let (mut done, mut status) = (0, SUCCESS);
    while done < head.len {
        let mut bytes = vec![0; (head.len - done).min(PIECE as u64) as usize];
        {
            let state = state();
            let range = (head.address.wrapping_add(done), bytes.len() as u64);
            status = state.admits(head.to, peer_of(&head), head.key, range, REMOTE_READ);
            if status != SUCCESS {
                break;
            }
            // SAFETY: as in `land`.
            unsafe {
                let from = std::ptr::with_exposed_provenance::<u8>(state.place(head.key, range.0));
                bytes.as_mut_ptr().copy_from_nonoverlapping(from, bytes.len());
            }
        }
        send_word(stream, bytes.len() as u32)?;
        stream.write_all(&bytes)?;
        done += bytes.len() as u64;
    }
    send_word(stream, 0)?;
    send_word(stream, status)
}
