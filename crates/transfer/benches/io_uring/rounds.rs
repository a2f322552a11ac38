//! Runs the variants of a case in turn, and prints what each of them cost.

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

impl Variant {
    fn uses_kernel_thread(&self) -> bool {
        matches!(self.client, ClientKind::Ring(Setup { sqpoll: true, .. }))
    }
}

/// One table.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) connections: usize,
    pub(crate) link: Link,
}

/// About how long one variant works in a round.
const TURN: Duration = Duration::from_millis(12);

/// Between two turns: what the one before left to do is done.
const REST: Duration = Duration::from_millis(3);

/// What one turn cost, for each operation.
#[derive(Clone, Copy, Default)]
struct Cost {
    calls: f64,
    wall_us: f64,
    cpu_us: f64,
    client_cpu_us: f64,
}

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

    fn operate(&mut self) {
        let result = match self {
            Client::Sockets(client) => client.operate(),
            Client::Ring(client) => client.operate(),
        };
        result.expect("the server serves");
    }
}

/// A client's thread: takes numbers of operations, and tells the processor time that they took.
struct Caller {
    orders: Sender<u64>,
    answers: Receiver<Duration>,
}

impl Caller {
    fn start(stream: TcpStream, source: &Arc<Arena>, shape: Shape, kind: ClientKind) -> Caller {
        let (orders, ordered) = channel::<u64>();
        let (answer, answers) = channel();
        let source = Arc::clone(source);
        std::thread::spawn(move || {
            let arena = Arc::new(Arena::empty(shape));
            let mut client = Client::new(stream, Arc::clone(&arena), kind).expect("a client");
            client.operate();
            check(&arena, &source);
            for count in ordered {
                let begin = usage::of_thread();
                for _ in 0..count {
                    client.operate();
                }
                answer.send(usage::of_thread() - begin).expect("waited for");
            }
        });
        Caller { orders, answers }
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
        let pairs = case.link.connect(case.connections)?;
        let (near, far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        // Two hosts share no processor, and where the scheduler puts two threads costs more than what they call.
        let here = Place::here()?;
        let places = if variant.uses_kernel_thread() { [here; 2] } else { here.ends() };
        places[1].enter()?;
        match variant.server {
            ServerKind::Threads => sockets::serve_by_threads(far, source),
            ServerKind::Epoll => sockets::serve_by_epoll(far, source)?,
            ServerKind::Ring(setup) => ring_server::serve(far, source, setup)?,
        }
        places[0].enter()?;
        let caller = |stream| Caller::start(stream, source, case.shape, variant.client);
        let callers = near.into_iter().map(caller).collect();
        here.enter()?;
        Ok(Stand { name: variant.name, callers, costs: Vec::new() })
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

/// Measures one case and prints its table.
pub(crate) fn run(case: Case, variants: &[Variant], rounds: usize) {
    let link = if case.link == Link::Veth { "a pair of virtual cards" } else { "loopback" };
    let Shape { ranges, len } = case.shape;
    println!("\n{ranges} x {len} B, {} connection(s), {link}\n", case.connections);
    let source = Arc::new(Arena::filled(case.shape));
    let stands: io::Result<Vec<Stand>> =
        variants.iter().map(|variant| Stand::new(*variant, case, &source)).collect();
    let mut stands = match stands {
        Ok(stands) => stands,
        Err(error) => {
            println!("left out: {error}");
            return;
        }
    };
    let warm = stands[0].turn(1).wall_us.max(stands[0].turn(4).wall_us);
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
    print(&stands);
}

fn print(stands: &[Stand]) {
    println!(
        "| variant | calls/op | CPU us/op | of the client | CPU, ratio | wall us/op | wall, ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    for stand in stands {
        let of = |get: fn(&Cost) -> f64| quartiles(stand.costs.iter().map(get).collect())[1];
        let ratio = |get: fn(&Cost) -> f64| {
            let pairs = stand.costs.iter().zip(&stands[0].costs);
            let [low, median, high] = quartiles(pairs.map(|(a, b)| get(a) / get(b)).collect());
            format!("{median:.2} ({low:.2}-{high:.2})")
        };
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {} | {:.1} | {} |",
            stand.name,
            of(|cost| cost.calls),
            of(|cost| cost.cpu_us),
            of(|cost| cost.client_cpu_us),
            ratio(|cost| cost.cpu_us),
            of(|cost| cost.wall_us),
            ratio(|cost| cost.wall_us),
        );
    }
}

/// The lower quartile, the median and the upper quartile.
pub(crate) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    [1, 2, 3].map(|quarter| values[last * quarter / 4])
}
