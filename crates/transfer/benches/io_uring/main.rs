//! Would an io_uring engine move bytes with less work than the calls that the transport makes? Frames of the lengths
//! that the transport's have, once through `sendmsg` and `recvmsg`, once through rings set up in several ways, in turn,
//! many short rounds each. Prints Markdown tables.
//!
//! ```text
//! cargo bench -p mooncake-transfer --bench io_uring                  # every case
//! cargo bench -p mooncake-transfer --bench io_uring -- --rounds 100 1x4096 64x1048576
//! cargo bench -p mooncake-transfer --bench io_uring -- one spinning many cards nowhere
//! ```
//!
//! Network cards that only exist in a namespace need root; their tables are left out otherwise.

mod link;
mod nowhere;
mod place;
mod ring;
mod ring_client;
mod ring_server;
mod rounds;
mod shape;
mod sockets;
mod table;
mod usage;

use link::Link;
use ring::Setup;
use rounds::{Case, ClientKind, ServerKind, Variant, run};
use shape::Shape;
use sockets::Receive;
use table::{Table, print_side_by_side};

/// The ring as an engine would set it up.
const DEFERRED: Setup =
    Setup { deferred: true, sqpoll: false, fixed: false, multishot: false, zero_copy: false };

const SOCKETS: Variant = at_the_client("sockets", ClientKind::Sockets(Receive::AsItComes));

const fn rings(name: &'static str, setup: Setup) -> Variant {
    Variant { name, client: ClientKind::Ring(setup), server: ServerKind::Ring(setup) }
}

const fn at_the_client(name: &'static str, client: ClientKind) -> Variant {
    Variant { name, client, server: ServerKind::Threads }
}

const EPOLL: Variant = Variant {
    name: "epoll at the server",
    client: ClientKind::Sockets(Receive::AsItComes),
    server: ServerKind::Epoll,
};

/// One connection: both ends are varied.
const ONE: [Variant; 10] = [
    SOCKETS,
    at_the_client("sockets, wait for all", ClientKind::Sockets(Receive::All)),
    at_the_client("sockets, gathered", ClientKind::Sockets(Receive::Gathered)),
    EPOLL,
    rings("rings", Setup { deferred: false, ..DEFERRED }),
    rings("rings, deferred", DEFERRED),
    at_the_client("ring, deferred, at the client", ClientKind::Ring(DEFERRED)),
    rings("rings, deferred, fixed", Setup { fixed: true, ..DEFERRED }),
    rings("rings, deferred, multishot", Setup { multishot: true, ..DEFERRED }),
    rings("rings, deferred, zero copy", Setup { zero_copy: true, ..DEFERRED }),
];

/// Those that wait actively: wherever the scheduler puts them, as a thread of the kernel needs a processor of its own.
const SPINNING: [Variant; 3] = [
    SOCKETS,
    at_the_client("sockets, spinning", ClientKind::Sockets(Receive::Spinning)),
    at_the_client(
        "ring, SQPOLL, at the client",
        ClientKind::Ring(Setup { deferred: false, sqpoll: true, ..DEFERRED }),
    ),
];

/// Many connections, each client on a thread of its own: the server is varied.
const MANY: [Variant; 5] = [
    SOCKETS,
    EPOLL,
    at_the_server("ring at the server", Setup { deferred: false, ..DEFERRED }),
    at_the_server("ring, deferred, at the server", DEFERRED),
    rings("rings, deferred", DEFERRED),
];

const fn at_the_server(name: &'static str, setup: Setup) -> Variant {
    let client = ClientKind::Sockets(Receive::AsItComes);
    Variant { name, client, server: ServerKind::Ring(setup) }
}

/// Cards that are not loopback: what differs there is the send without a copy.
const CARDS: [Variant; 3] = [
    SOCKETS,
    rings("rings, deferred", DEFERRED),
    rings("rings, deferred, zero copy", Setup { zero_copy: true, ..DEFERRED }),
];

const fn shape(ranges: usize, len: usize) -> Shape {
    Shape { ranges, len }
}

fn main() {
    let (rounds, wanted) = arguments();
    match ring::time_to_make() {
        Ok(time) => println!("A thread's ring takes {:.1} us to make.", time.as_secs_f64() * 1e6),
        Err(error) => return println!("This system has no io_uring: {error}"),
    }
    let is_wanted = |word: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == word);
    let singles = [shape(1, 4 << 10), shape(1, 64 << 10), shape(1, 1 << 20)];
    let batches = [shape(64, 1 << 20), shape(128, 64 << 10), shape(1000, 64)];
    let run_all = |shapes: &[Shape], case: Case, group: &str, variants: &[Variant]| {
        let is_wanted = |shape: &&Shape| {
            is_wanted(group) || is_wanted(&format!("{}x{}", shape.ranges, shape.len))
        };
        let shapes = shapes.iter().filter(is_wanted);
        let tables = shapes.map(|&shape| run(Case { shape, ..case }, variants, rounds));
        tables.flatten().collect::<Vec<Table>>()
    };
    let case =
        |connections| Case { shape: singles[0], connections, link: Link::Loopback, is_free: false };
    let one = run_all(&[&singles[..], &batches[..]].concat(), case(1), "one", &ONE);
    let free = Case { is_free: true, ..case(1) };
    let spinning = run_all(&singles, free, "spinning", &SPINNING);
    let mut many = run_all(&singles, case(8), "many", &MANY);
    many.extend(run_all(&singles, case(64), "many", &MANY));
    let cards = Case { link: Link::Veth, ..case(1) };
    let cards = run_all(&[singles[2], batches[0]], cards, "cards", &CARDS);
    if is_wanted("nowhere") {
        nowhere::run(rounds);
    }
    for tables in [one, spinning, many, cards] {
        print_side_by_side(&tables, "CPU", |cost| cost.cpu_us);
        print_side_by_side(&tables, "Wall time", |cost| cost.wall_us);
    }
}

/// Rounds, and the cases that are wanted; none means all.
fn arguments() -> (usize, Vec<String>) {
    let mut rounds = 40;
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            let number = arguments.next().and_then(|number| number.parse().ok());
            rounds = number.expect("--rounds takes a number");
        } else {
            wanted.push(argument);
        }
    }
    (rounds, wanted)
}
