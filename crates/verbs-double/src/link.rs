//! What connects processes: a Unix socket for each, with a name that follows from its GID.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process;
use std::sync::Once;
use std::thread;

use crate::serve::serve;

/// Most bytes that move at once.
pub(crate) const PIECE: usize = 16 << 10;

/// The head of a request.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) is_write: bool,
    pub(crate) to: u32,
    pub(crate) from: u32,
    pub(crate) process: u32,
    /// Which NIC it is sent to.
    pub(crate) nic: u8,
    pub(crate) key: u32,
    pub(crate) address: u64,
    pub(crate) len: u64,
}

const HEAD_BYTES: usize = 40;

impl Head {
    pub(crate) fn send(&self, stream: &mut UnixStream) -> io::Result<()> {
        let Head { is_write, to, from, process, nic, key, address, len } = *self;
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        for word in [is_write.into(), to, from, process, nic.into(), key] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(address.to_ne_bytes());
        bytes.extend(len.to_ne_bytes());
        stream.write_all(&bytes)
    }

    pub(crate) fn receive(stream: &mut UnixStream) -> io::Result<Head> {
        let mut bytes = [0; HEAD_BYTES];
        stream.read_exact(&mut bytes)?;
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Ok(Head {
            is_write: word(0) != 0,
            to: word(4),
            from: word(8),
            process: word(12),
            nic: word(16) as u8,
            key: word(20),
            address: long(24),
            len: long(32),
        })
    }
}

pub(crate) fn send_word(stream: &mut UnixStream, word: u32) -> io::Result<()> {
    stream.write_all(&word.to_ne_bytes())
}

pub(crate) fn receive_word(stream: &mut UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_ne_bytes(bytes))
}

fn name_of(process: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("mooncake-verbs-double-{process}"))
}

/// Connects with the library in another process, or in this one.
pub(crate) fn connect(process: u32) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&name_of(process)?)
}

/// Serves the requests of all processes, from the first call on.
pub(crate) fn listen() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let name = name_of(process::id()).expect("it is short");
        let listener = UnixListener::bind_addr(&name).expect("no other process has this name");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(stream));
            }
        });
    });
}

/// Length of an event of a NIC.
pub(crate) const EVENT_BYTES: usize = 16;

/// Writes an event about the only port of a NIC: a `struct ibv_async_event`.
pub(crate) fn tell_event(descriptor: i32, kind: u32) {
    let mut bytes = [0; EVENT_BYTES];
    bytes[..4].copy_from_slice(&1_u32.to_ne_bytes());
    bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
    // SAFETY: the bytes live, and the descriptor belongs to a context that lives.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
}

/// Writes an event to the descriptor of a channel.
pub(crate) fn tell(descriptor: i32, event: usize) {
    let bytes = event.to_ne_bytes();
    // SAFETY: the bytes live, and the descriptor belongs to a channel that lives.
    unsafe { libc::write(descriptor, bytes.as_ptr().cast(), bytes.len()) };
}
