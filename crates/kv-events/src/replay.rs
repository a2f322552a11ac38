//! Replays of recent batches, and snapshots of all keys.
//!
//! A request is one frame, after the empty frame of a REQ socket. It is the number of the first wanted batch in eight
//! bytes, big endian, or the word `snapshot`. Each answer is a message of two frames, a number and a batch. The last
//! one has the number -1 and an empty batch.
//!
//! The batches of a snapshot report each key as stored. They have the number of the stream's last batch when the
//! snapshot began. A follower that then applies all later batches knows all keys. It may meet an event that the
//! snapshot already includes: that does no harm, since an event states a fact.

use std::io;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::greeting::{HANDSHAKE, greet};
use crate::shared::Shared;
use crate::zmtp::{read_message, write_message};

const END: [u8; 8] = [0xff; 8];

/// Serves one client until it disconnects.
pub(crate) async fn serve(mut stream: TcpStream, shared: Rc<Shared>) -> io::Result<()> {
    let greeting = greet(&mut stream, "ROUTER", &["REQ", "DEALER"], shared.security());
    timeout(HANDSHAKE, greeting).await??;
    loop {
        let mut frames = read_message(&mut stream).await?;
        let request = frames.pop().unwrap_or_default();
        let mut answer = Answer { stream: &mut stream, envelope: frames };
        match <[u8; 8]>::try_from(&request[..]) {
            // The word has as many bytes as a number.
            Ok(word) if word == *b"snapshot" => answer.snapshot(&shared).await?,
            Ok(number) => answer.replay(&shared, u64::from_be_bytes(number)).await?,
            Err(_) => {
                let why = "it asks neither for a number of eight bytes nor for a snapshot";
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
}

struct Answer<'a> {
    stream: &'a mut TcpStream,
    /// The frames before the request.
    envelope: Vec<Vec<u8>>,
}

impl Answer<'_> {
    async fn send(&mut self, number: [u8; 8], batch: &[u8]) -> io::Result<()> {
        let mut frames: Vec<&[u8]> = self.envelope.iter().map(Vec::as_slice).collect();
        frames.extend([&number[..], batch]);
        write_message(self.stream, &frames).await
    }

    async fn replay(&mut self, shared: &Shared, from: u64) -> io::Result<()> {
        // Later batches reach the client through the stream.
        let (mut next, last) = (from, shared.history.borrow().last());
        loop {
            let found = shared.history.borrow().from(next);
            let Some((number, batch)) = found.filter(|&(number, _)| number <= last) else { break };
            self.send(number.to_be_bytes(), &batch).await?;
            next = number + 1;
        }
        self.send(END, b"").await
    }

    async fn snapshot(&mut self, shared: &Shared) -> io::Result<()> {
        let number = shared.history.borrow().last().to_be_bytes();
        let mut from = Some(0);
        while let Some(at) = from {
            let page = shared.snapshot.page(at).await;
            let (events, next) = page.ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotConnected, "no master leads at this moment")
            })?;
            let batch = shared.encoder.borrow_mut().batch(&events).0;
            self.send(number, &batch).await?;
            from = next;
        }
        self.send(END, b"").await
    }
}
