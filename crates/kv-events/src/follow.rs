//! A client that follows the events of another publisher.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::greeting::{HANDSHAKE, Security, greet};
use crate::zmtp::{read_message_of, write_message};

/// Most bytes of a publisher's message that are read.
const MAX_BATCH_BYTES: usize = 16 << 20;

/// Subscribes to all events at `host:port`, with a token if the publisher asks for one, and passes the number and the bytes of each batch to `on_batch`. Ends
/// after `most`, or when `stop` completes.
///
/// # Errors
/// If the publisher cannot be reached, does not speak ZeroMQ, does not admit the token, or closes the connection.
pub fn follow(
    (address, token): (&str, &str),
    (most, stop): (Duration, impl Future<Output = ()>),
    on_batch: impl FnMut(u64, &[u8]),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            biased;
            _ = timeout(most, stop) => Ok(()),
            ended = read(address, token, on_batch) => ended,
        }
    })
}

async fn read(address: &str, token: &str, mut on_batch: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let security = if token.is_empty() { Security::Open } else { Security::Show(token.as_bytes()) };
    let mut stream = timeout(HANDSHAKE, TcpStream::connect(address)).await??;
    timeout(HANDSHAKE, greet(&mut stream, "SUB", &["PUB", "XPUB"], security)).await??;
    // A subscription to all topics.
    write_message(&mut stream, &[&[1]]).await?;
    loop {
        let frames = read_message_of(&mut stream, MAX_BATCH_BYTES).await?;
        // The frames are a topic, a number, and the batch.
        if let [_, number, batch] = &frames[..]
            && let Ok(number) = <[u8; 8]>::try_from(&number[..])
        {
            on_batch(u64::from_be_bytes(number), batch);
        }
    }
}
