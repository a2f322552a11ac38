//! Runs the variants of a case in turn, and prints what each of them cost.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::link::Link;
use crate::place::Place;
use crate::ring::Setup;
use crate::shape::{Arena, Shape};
use crate::sockets::Receive;
use crate::table::{Cost, Table};
use crate::{ring_client, ring_server, sockets, usage};

/// How a client works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ClientKind {
    Sockets(Receive),
    Ring(Setup),
}

/// How a server works.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServerKind {
    Threads,
    Epoll,
    Ring(Setup),
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) client: ClientKind,
    pub(crate) server: ServerKind,
}

/// One table.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) connections: usize,
    pub(crate) link: Link,
    /// May the two ends and the kernel's threads run wherever the scheduler wants them to?
    pub(crate) is_free: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { ranges, len } = self.shape;
        write!(f, "{ranges} x {len} B")?;
        if self.connections > 1 {
            write!(f, ", {} connections", self.connections)?;
        }
        if self.link == Link::Veth {
            write!(f, ", virtual cards")?;
        }
        if self.is_free { write!(f, ", on any processor") } else { Ok(()) }
    }
}

/// About how long one variant works in a round.
const TURN: Duration = Duration::from_millis(12);

/// Between two turns: what the one before left to do is done.
const REST: Duration = Duration::from_millis(3);

enum Client {
    Sockets(Box<sockets::Client>),
    Ring(Box<ring_client::Client>),
}

impl Client {
    fn new(stream: TcpStream, arena: Arc<Arena>, kind: ClientKind) -> io::Result<Client> {
        Ok(match kind {
            ClientKind::Sockets(receive) => {
                Client::Sockets(Box::new(sockets::Client::new(stream, arena, receive)))
            }
            ClientKind::Ring(setup) => {
                Client::Ring(Box::new(ring_client::Client::new(stream, arena, setup)?))
            }
        })
    }

    fn operate(&mut self) -> io::Result<()> {
        match self {
            Client::Sockets(client) => client.operate(),
            Client::Ring(client) => client.operate(),
        }
    }
}

/// A client's thread: takes numbers of operations, and tells the processor time that they took.
struct Caller {
    orders: Sender<u64>,
    answers: Receiver<Duration>,
}

impl Caller {
    fn start(
        stream: TcpStream,
        source: &Arc<Arena>,
        shape: Shape,
        kind: ClientKind,
    ) -> io::Result<Caller> {
        let (orders, ordered) = channel::<u64>();
        let (answer, answers) = channel();
        let (started, start) = channel();
        let source = Arc::clone(source);
        std::thread::spawn(move || {
            let arena = Arc::new(Arena::empty(shape));
            let first = Client::new(stream, Arc::clone(&arena), kind).and_then(|mut client| {
                client.operate()?;
                Ok(client)
            });
            let mut client = match first {
                Ok(client) => client,
                Err(error) => return started.send(Err(error)).expect("waited for"),
            };
            check(&arena, &source);
            started.send(Ok(())).expect("waited for");
            for count in ordered {
                let begin = usage::of_thread();
                for _ in 0..count {
                    client.operate().expect("the server serves");
                }
                answer.send(usage::of_thread() - begin).expect("waited for");
            }
        });
        start.recv().expect("the bytes are right")?;
        Ok(Caller { orders, answers })
    }
}

/// Head, payload and trailer of every frame must have come to their places.
fn check(arena: &Arena, source: &Arena) {
    for frame in &source.frames {
        assert!(arena.body(frame).to_vec() == source.body(frame).to_vec(), "wrong bytes");
        assert!(arena.trailer(frame).to_vec() == source.trailer(frame).to_vec(), "wrong trailer");
    }
}

/// All that one variant needs, at rest between its turns.
struct Stand {
    name: &'static str,
    callers: Vec<Caller>,
    costs: Vec<Cost>,
}

impl Stand {
    fn new(variant: Variant, case: Case, source: &Arc<Arena>) -> io::Result<Stand> {
        // Two hosts share no processor, and where the scheduler puts two threads costs more than what they call.
        let here = Place::here()?;
        let places = if case.is_free { [here; 2] } else { here.ends() };
        let callers = start(variant, case, source, places);
        here.enter()?;
        Ok(Stand { name: variant.name, callers: callers?, costs: Vec::new() })
    }

    fn turn(&self, count: u64) -> Cost {
        let (calls, cpu, begin) = (usage::calls(), usage::of_process(), Instant::now());
        for caller in &self.callers {
            caller.orders.send(count).expect("the caller waits");
        }
        let answer = |caller: &Caller| caller.answers.recv().expect("no panic");
        let client_cpu: Duration = self.callers.iter().map(answer).sum();
        let operations = (count * self.callers.len() as u64) as f64;
        let us = |time: Duration| time.as_secs_f64() * 1e6 / operations;
        Cost {
            wall_us: us(begin.elapsed()),
            cpu_us: us(usage::of_process() - cpu),
            client_cpu_us: us(client_cpu),
            calls: (usage::calls() - calls) as f64 / operations,
        }
    }
}

/// Starts clients and a server at the places `[client's, server's]`, and leaves the calling thread at one of them.
fn start(
    variant: Variant,
    case: Case,
    source: &Arc<Arena>,
    places: [Place; 2],
) -> io::Result<Vec<Caller>> {
    let pairs = case.link.connect(case.connections)?;
    let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    places[1].enter()?;
    match variant.server {
        ServerKind::Threads => sockets::serve_by_threads(far, source),
        ServerKind::Epoll => sockets::serve_by_epoll(far, source)?,
        ServerKind::Ring(setup) => ring_server::serve(far, source, setup)?,
    }
    places[0].enter()?;
    let caller = |stream| Caller::start(stream, source, case.shape, variant.client);
    near.into_iter().map(caller).collect()
}

/// Measures one case, prints its table and hands it out; nothing if it cannot be set up here.
pub(crate) fn run(case: Case, variants: &[Variant], rounds: usize) -> Option<Table> {
    let source = Arc::new(Arena::filled(case.shape));
    let mut stands = Vec::new();
    for variant in variants {
        match Stand::new(*variant, case, &source) {
            Ok(stand) => stands.push(stand),
            Err(error) => {
                println!("\n{case}: {}: left out: {error}", variant.name);
                if stands.is_empty() {
                    return None;
                }
            }
        }
    }
    let warm = [1, 4, 4, 4].map(|count| stands[0].turn(count).wall_us);
    let warm = warm.into_iter().fold(f64::INFINITY, f64::min);
    let turn_us = TURN.as_secs_f64() * 1e6 / case.connections as f64;
    let count = ((turn_us / warm) as u64).clamp(1, 10_000);
    for stand in &stands {
        stand.turn(count);
    }
    for round in 0..rounds {
        for position in 0..stands.len() {
            // Who comes first differs from round to round, and who comes before whom.
            let position = if round % 2 == 0 { position } else { stands.len() - 1 - position };
            let turn = (position + round / 2) % stands.len();
            std::thread::sleep(REST);
            let cost = stands[turn].turn(count);
            stands[turn].costs.push(cost);
        }
    }
    let rows = stands.into_iter().map(|stand| (stand.name, stand.costs)).collect();
    let table = Table { title: case.to_string(), rows };
    table.print();
    Some(table)
}
