//! How long a pool is without its objects when its master is killed: two nodes in this process, a master in a process of
//! its own that is ended by SIGKILL and started again at the same port.
//!
//! ```sh
//! cargo build --release -p mooncake-cli --bins
//! cargo run --release -p mooncake-client --example recovery -- target/release/mooncake_master [objects] [rounds]
//! ```
//!
//! Objects are a million by default, of 64 bytes, with keys of 120. One line for each round: seconds from the start of the
//! new master until every object was found, and how many were read and compared then.

#![forbid(unsafe_code)]

mod master;
mod objects;

use std::error::Error;
use std::time::{Duration, Instant};

use mooncake_client::{Store, StoreConfig};

use master::Master;
use objects::Objects;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Longest time that a round may take.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let program = args.next().ok_or("say where mooncake_master lies")?;
    let mut number = |default| args.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (count, rounds) = (number(1_000_000)?, number(3)?);
    let objects = Objects::new(count);
    let mut master = Master::start(&program, "0")?;
    let config = |segment_bytes| -> Outcome<StoreConfig> {
        let (master, defaults) = (master.address().to_owned(), StoreConfig::from_env()?);
        Ok(StoreConfig { master, segment_bytes, ..defaults })
    };
    // With room to spare, so that nothing is evicted.
    let segment_bytes = (objects.len_bytes() * 4).next_multiple_of(64 << 20);
    let nodes = [Store::open(config(segment_bytes)?)?, Store::open(config(segment_bytes)?)?];
    let store = Store::open(config(0)?)?;
    let begun = Instant::now();
    objects.put(&store)?;
    println!("{count} objects put in {:.2} s", begun.elapsed().as_secs_f64());
    for round in 1..=rounds {
        master.kill()?;
        let begun = Instant::now();
        master = Master::start(&program, master.port())?;
        objects.wait_for(&store, PATIENCE)?;
        let took = begun.elapsed().as_secs_f64();
        let read = objects.read_some(&store)?;
        println!("round {round}: all found after {took:.2} s, {read} read");
    }
    drop((nodes, store));
    Ok(())
}
