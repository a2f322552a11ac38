//! The publisher and its thread.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_types::LogLimiter;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::event::{Event, Fields};
use crate::history::History;
use crate::message::Encoder;
use crate::queue::Queue;
use crate::replay;
use crate::shared::{Counters, Passwords, Shared};
use crate::snapshot::Snapshot;
use crate::subscriber;

/// Most events in a batch.
const BATCH_EVENTS: usize = 256;
/// Most connections of subscribers at a time, and most of clients that ask for replays.
const MAX_PEERS: usize = 256;
/// How long subscribers may still read when the publisher stops.
const FAREWELL: Duration = Duration::from_millis(200);
/// When the kernel asks an idle peer whether it is there, and how long unanswered packets are sent again: peers that
/// vanished keep no place.
const IDLE: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(60);
/// How long the publisher waits after it failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// The configuration of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The common fields of all events.
    pub fields: Fields,
    /// Most events that wait to be published. If more come, the oldest are dropped, and the numbers of batches show a
    /// gap.
    pub queue_capacity: usize,
    /// Most bytes of batches in the history.
    pub history_bytes: usize,
    /// Batches and events are numbered after this. It should be higher than any number of an earlier process, as the
    /// time in microseconds is. Subscribers of the earlier process then see a gap.
    pub numbers_after: u64,
}

/// Counts of what was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Published batches.
    pub batches: u64,
    /// Events taken for batches, those that the encoder leaves out included.
    pub events: u64,
    /// Events that were dropped because the queue was full.
    pub dropped: u64,
    /// Events of keys that are no numbers.
    pub unnumbered_keys: u64,
    /// Subscribers that are connected now.
    pub subscribers: u64,
}

/// Publishes events until it is dropped.
#[derive(Debug)]
pub struct Publisher {
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Publisher {
    /// Starts the publisher. It serves subscribers at `subscribers`, and requests for replays and snapshots at
    /// `replays`. Neither socket may block. With `passwords`, peers must show one.
    ///
    /// # Errors
    /// If the system refuses a thread or the resources of a runtime.
    pub fn start(
        subscribers: TcpListener,
        replays: Option<TcpListener>,
        config: Config,
        snapshot: Box<dyn Snapshot>,
        passwords: Option<Passwords>,
    ) -> io::Result<Publisher> {
        let address = subscribers.local_addr()?;
        let queue = Arc::new(Queue::new(config.queue_capacity));
        let counters = Arc::<Counters>::default();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (taken, counted) = (Arc::clone(&queue), Arc::clone(&counters));
        let thread = thread::Builder::new().name("kv-events".to_owned()).spawn(move || {
            let shared = Rc::new(Shared {
                history: RefCell::new(History::new(config.history_bytes, config.numbers_after)),
                encoder: RefCell::new(Encoder::new(config.fields, config.numbers_after)),
                published: watch::Sender::new(0),
                snapshot,
                passwords,
                counters: counted,
            });
            let tasks = LocalSet::new();
            let served = tasks.block_on(&runtime, run(subscribers, replays, &taken, shared));
            if let Err(error) = served {
                warn!(%error, "KV events are published no more");
            }
        })?;
        Ok(Publisher { queue, counters, address, thread: Some(thread) })
    }

    /// The address for subscribers.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Queues events for publication, in this order. Does not block.
    pub fn publish(&self, events: impl IntoIterator<Item = Event>) {
        self.queue.push(events);
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counters { batches, events, dropped, unnumbered_keys, subscribers } = &*self.counters;
        Stats {
            batches: of(batches),
            events: of(events),
            dropped: of(dropped),
            unnumbered_keys: of(unnumbered_keys),
            subscribers: of(subscribers),
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.queue.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread that publishes KV events panicked");
        }
    }
}

/// Publishes events until the queue is closed and empty.
async fn run(
    subscribers: TcpListener,
    replays: Option<TcpListener>,
    queue: &Queue,
    shared: Rc<Shared>,
) -> io::Result<()> {
    let subscribers = tokio::net::TcpListener::from_std(subscribers)?;
    spawn_local(accept(subscribers, Rc::clone(&shared), subscriber::serve));
    if let Some(replays) = replays {
        let replays = tokio::net::TcpListener::from_std(replays)?;
        spawn_local(accept(replays, Rc::clone(&shared), replay::serve));
    }
    while let Some(taken) = queue.take(BATCH_EVENTS).await {
        let (batch, unnumbered) = shared.encoder.borrow_mut().batch(&taken.events);
        let number = shared.history.borrow_mut().add(taken.dropped, batch);
        shared.published.send_replace(number);
        let Counters { batches, events, dropped, unnumbered_keys, .. } = &*shared.counters;
        batches.fetch_add(1, Ordering::Relaxed);
        events.fetch_add(taken.events.len() as u64, Ordering::Relaxed);
        dropped.fetch_add(taken.dropped, Ordering::Relaxed);
        unnumbered_keys.fetch_add(unnumbered, Ordering::Relaxed);
        // Lets the tasks of subscribers run, however many events come.
        tokio::task::yield_now().await;
    }
    if shared.counters.subscribers.load(Ordering::Relaxed) > 0 {
        sleep(FAREWELL).await;
    }
    Ok(())
}

/// Accepts connections, and serves each in a task of its own.
async fn accept<F>(
    listener: tokio::net::TcpListener,
    shared: Rc<Shared>,
    serve: impl Fn(TcpStream, Rc<Shared>) -> F,
) where
    F: Future<Output = io::Result<()>> + 'static,
{
    let peers = Rc::new(());
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                debug!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
                continue;
            }
        };
        if Rc::strong_count(&peers) > MAX_PEERS {
            say(address, &io::Error::other(format!("there are {MAX_PEERS} others")));
            continue;
        }
        if let Err(error) = prepare(&stream) {
            debug!(%address, %error, "a connection for KV events has ended");
            continue;
        }
        let (served, peer) = (serve(stream, Rc::clone(&shared)), Rc::clone(&peers));
        spawn_local(async move {
            if let Err(error) = served.await
                && error.kind() == io::ErrorKind::InvalidData
            {
                say(address, &error);
            }
            drop(peer);
        });
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(IDLE / 2);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}

/// Tells that a peer was turned away, once a second at most.
fn say(address: SocketAddr, why: &io::Error) {
    static SAID: LogLimiter<io::ErrorKind> = LogLimiter::new();
    if let Some(further) = SAID.admit(why.kind(), Instant::now()) {
        warn!(%address, %why, further, "a connection for KV events was closed");
    }
}
