//! The other side: following what another publishes.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::zmtp::{HANDSHAKE, greet, read_message_of, write_message};

/// Longest message of a publisher that is read, in bytes.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// Subscribes to all that is published at `host:port`, and hands on the number and the bytes of each batch, for so long at
/// most, and until `stop` completes.
///
/// # Errors
/// The publisher cannot be reached, speaks something else, or went away.
pub fn follow(
    address: &str,
    (most, stop): (Duration, impl Future<Output = ()>),
    on_batch: impl FnMut(u64, &[u8]),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = timeout(most, stop) => Ok(()),
            ended = read(address, on_batch) => ended,
        }
    })
}

async fn read(address: &str, mut on_batch: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let mut stream = timeout(HANDSHAKE, TcpStream::connect(address)).await??;
    timeout(HANDSHAKE, greet(&mut stream, "SUB", &["PUB", "XPUB"])).await??;
    // To every topic.
    write_message(&mut stream, &[&[1]]).await?;
    loop {
        let frames = read_message_of(&mut stream, MAX_BATCH_BYTES).await?;
        // A topic, a number, and the batch.
        if let [_, number, batch] = &frames[..]
            && let Ok(number) = <[u8; 8]>::try_from(&number[..])
        {
            on_batch(u64::from_be_bytes(number), batch);
        }
    }
}
