//! One subscriber. It gets all batches from its subscription on, as fast as it reads them.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::greeting::{HANDSHAKE, greet};
use crate::shared::Shared;
use crate::zmtp::{read_message, write_message};

/// How far a subscriber has read.
#[derive(Default)]
struct Place {
    /// How many subscriptions to the empty topic, which is that of the stream, it has.
    subscriptions: Cell<u32>,
    /// The number of the batch that it gets next, or a lower one.
    next: Cell<u64>,
    subscribed: Notify,
}

/// Serves a subscriber until it disconnects.
pub(crate) async fn serve(mut stream: TcpStream, shared: Rc<Shared>) -> io::Result<()> {
    timeout(HANDSHAKE, greet(&mut stream, "PUB", &["SUB", "XSUB"], shared.security())).await??;
    let place = Place::default();
    let (reading, writing) = stream.into_split();
    let ended = tokio::select! {
        ended = read(reading, &place, &shared) => ended,
        ended = write(writing, &place, &shared) => ended,
    };
    if place.subscriptions.get() > 0 {
        shared.counters.subscribers.fetch_sub(1, Ordering::Relaxed);
    }
    ended
}

async fn read(mut stream: OwnedReadHalf, place: &Place, shared: &Shared) -> io::Result<()> {
    loop {
        let frames = read_message(&mut stream).await?;
        let count = place.subscriptions.get();
        match frames[0][..] {
            [1] => {
                if count == 0 {
                    place.next.set(shared.history.borrow().last() + 1);
                    // From here on it misses nothing.
                    shared.counters.subscribers.fetch_add(1, Ordering::Relaxed);
                }
                place.subscriptions.set(count.saturating_add(1));
                place.subscribed.notify_one();
            }
            [0] => {
                place.subscriptions.set(count.saturating_sub(1));
                if count == 1 {
                    shared.counters.subscribers.fetch_sub(1, Ordering::Relaxed);
                }
            }
            // A subscription to a topic that the stream does not have.
            _ => {}
        }
    }
}

async fn write(mut stream: OwnedWriteHalf, place: &Place, shared: &Shared) -> io::Result<()> {
    let mut published = shared.published.subscribe();
    loop {
        if place.subscriptions.get() == 0 {
            place.subscribed.notified().await;
            continue;
        }
        let next = shared.history.borrow().from(place.next.get());
        match next {
            Some((number, batch)) => {
                write_message(&mut stream, &[b"", &number.to_be_bytes(), &batch]).await?;
                place.next.set(place.next.get().max(number + 1));
            }
            // An error means that the publisher has stopped.
            None if published.changed().await.is_err() => return Ok(()),
            None => {}
        }
    }
}
