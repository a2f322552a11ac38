//! The threads that encrypt and decrypt. Each connection is a task on one of them: it moves bytes between the socket to
//! the peer and one end of a socket pair, whose other end the program reads and writes.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, available_parallelism};
use std::time::Duration;

use mooncake_memory::{Private, spawn_unpinned};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::runtime::{self, Handle};
use tokio::time::timeout;

use crate::PrivateStream;

/// Most threads of a process.
const MAX_THREADS: usize = 4;

/// Room for the bytes of one direction at first, and once it was filled, in bytes.
const ROOM: (usize, usize) = (4 << 10, 128 << 10);

/// How long the bytes of one direction may still come after the other has ended.
const LINGER: Duration = Duration::from_secs(5);

/// A peer that takes no bytes for this long is cut off. The program's own limits end at its side of the relay.
const STALL: Duration = Duration::from_secs(30);

/// The threads of the process with this id. A forked child has none of them, and starts its own.
static THREADS: Mutex<Option<(u32, Vec<Handle>)>> = Mutex::new(None);

/// Runs a task on one of the threads, in turn.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut threads = THREADS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    let handles = match &mut *threads {
        Some((of, handles)) if *of == own => handles,
        _ => &mut threads.insert((own, start()?)).1,
    };
    let turn = NEXT.fetch_add(1, Ordering::Relaxed) % handles.len();
    handles[turn].spawn(task);
    Ok(())
}

fn start() -> io::Result<Vec<Handle>> {
    let processors = available_parallelism().map_or(1, usize::from);
    let count = (processors / 2).clamp(1, MAX_THREADS);
    (0..count).map(|_| start_one()).collect()
}

fn start_one() -> io::Result<Handle> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let thread = Builder::new().name("tls".to_owned());
    spawn_unpinned(thread, move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

/// Moves bytes between the peer and one end of a socket pair until the connection ends. The program sees how it ended by
/// the end of its bytes, whatever the reason.
///
/// # Errors
/// The system's, before a byte was moved.
pub(crate) async fn relay(
    peer: impl AsyncRead + AsyncWrite + Unpin,
    own: Private<UnixStream>,
) -> io::Result<()> {
    let own = PrivateStream::hand_over(own.convert::<OwnedFd>().convert())?;
    let (mut from_peer, mut to_peer) = split(peer);
    let (mut from_program, mut to_program) = split(own);
    let mut outwards = std::pin::pin!(pass(&mut from_program, &mut to_peer, STALL));
    // A program may read as late as it likes.
    let mut inwards = std::pin::pin!(pass(&mut from_peer, &mut to_program, Duration::MAX));
    tokio::select! {
        // A side that takes no more bytes may have answered already: it has refused what it did not read.
        _ = &mut outwards => {
            let _ = timeout(LINGER, inwards).await;
        }
        _ = &mut inwards => {
            let _ = timeout(LINGER, outwards).await;
        }
    }
    Ok(())
}

/// Passes bytes on as they come, until they end or the other side has taken none for so long.
async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    stall: Duration,
) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let mut room = vec![0; ROOM.0];
    loop {
        let count = match from.read(&mut room).await {
            Ok(count) => count,
            Err(error) => {
                // The other side learns of it at once, although what it has sent may still go out.
                let _ = timeout(stall, to.shutdown()).await;
                return Err(error);
            }
        };
        if count == 0 {
            return timeout(stall, to.shutdown()).await.map_err(late)?;
        }
        let send = async {
            to.write_all(&room[..count]).await?;
            to.flush().await
        };
        timeout(stall, send).await.map_err(late)??;
        if count == room.len() && count < ROOM.1 {
            room = vec![0; ROOM.1];
        }
    }
}
