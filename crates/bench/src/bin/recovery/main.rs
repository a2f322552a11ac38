//! How long a pool cannot be read after its master is killed. This process has two nodes, and the master runs in a
//! process of its own, which is ended with SIGKILL.
//!
//! ```sh
//! cargo build --release -p mooncake-cli --bins
//! cargo run --release -p mooncake-bench --bin recovery -- target/release/mooncake_master [objects] [rounds] [who]
//! ```
//!
//! By default there are a million objects of 64 bytes, with keys of 120 bytes. The last argument selects the next
//! leader. `alone` starts the same master again at its port. `warm` and `cold` have a standby, elected in a folder. A
//! warm standby follows the nodes, a cold one does not.
//!
//! The program prints one line for each round: how many seconds passed until every object was found, and how many
//! objects were then read and compared. The time counts from the start of the new master, or with a standby from the
//! death of the old one.

#![forbid(unsafe_code)]

mod master;
mod objects;

use std::error::Error;
use std::time::{Duration, Instant};

use mooncake_client::{Store, StoreConfig};

use master::Master;
use objects::Objects;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Longest wait within a round.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which master leads after the leader was killed.
enum Next {
    Itself,
    /// A standby with these flags.
    Standby {
        flags: Vec<String>,
        is_warm: bool,
    },
}

impl Next {
    fn read(who: &str, folder: &str) -> Outcome<Self> {
        let is_warm = match who {
            "alone" => return Ok(Next::Itself),
            "warm" => true,
            "cold" => false,
            other => return Err(format!("{other} is none of alone, warm and cold").into()),
        };
        let elected = ["--enable_ha", "--ha_backend_type=file"].map(str::to_owned);
        let further =
            [format!("--ha_backend_connstring={folder}"), format!("--ha_warm_standby={is_warm}")];
        Ok(Next::Standby { flags: elected.into_iter().chain(further).collect(), is_warm })
    }

    fn first(&self, program: &str) -> Outcome<Master> {
        match self {
            Next::Itself => Master::start(program, &["--rpc_port=0".to_owned()]),
            Next::Standby { flags, .. } => {
                let master = Master::start(program, flags)?;
                master.wait_for("/role", "leader", PATIENCE)?;
                Ok(master)
            }
        }
    }

    /// Kills the leader. Returns the next leader, and the moment from which the pool counts as leaderless.
    fn follow(&self, program: &str, mut leader: Master) -> Outcome<(Master, Instant)> {
        match self {
            Next::Itself => {
                leader.kill()?;
                let begun = Instant::now();
                let port = format!("--rpc_port={}", leader.port());
                Ok((Master::start(program, &[port])?, begun))
            }
            Next::Standby { flags, is_warm } => {
                let standby = Master::start(program, flags)?;
                standby.wait_for("/ha_status", "standby", PATIENCE)?;
                if *is_warm {
                    standby.wait_for("/health", "\"is_warm\":true", PATIENCE)?;
                }
                let begun = Instant::now();
                leader.kill()?;
                Ok((standby, begun))
            }
        }
    }
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let program = args.next().ok_or("say where mooncake_master lies")?;
    let mut number = |default| args.next().map_or(Ok(default), |text| text.parse::<usize>());
    let (count, rounds) = (number(1_000_000)?, number(3)?);
    let folder = std::env::temp_dir().join(format!("mooncake-recovery-{}", std::process::id()));
    let folder = folder.to_str().ok_or("the folder for temporary files has a name")?.to_owned();
    let next = Next::read(args.next().as_deref().unwrap_or("alone"), &folder)?;
    let outcome = run(&program, &next, &folder, (count, rounds));
    // The folder exists only if masters were elected in it.
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

fn run(program: &str, next: &Next, folder: &str, (count, rounds): (usize, usize)) -> Outcome<()> {
    let objects = Objects::new(count);
    let mut master = next.first(program)?;
    let place = match next {
        Next::Itself => master.address().to_owned(),
        Next::Standby { .. } => format!("file://{folder}"),
    };
    let config = |segment_bytes| -> Outcome<StoreConfig> {
        let (master, defaults) = (place.clone(), StoreConfig::from_env()?);
        Ok(StoreConfig { master, segment_bytes, ..defaults })
    };
    // Larger than needed, so that nothing is evicted.
    let segment_bytes = (objects.len_bytes() * 4).next_multiple_of(64 << 20);
    let nodes = [Store::open(config(segment_bytes)?)?, Store::open(config(segment_bytes)?)?];
    let store = Store::open(config(0)?)?;
    let begun = Instant::now();
    objects.put(&store)?;
    println!("{count} objects put in {:.2} s", begun.elapsed().as_secs_f64());
    for round in 1..=rounds {
        let begun;
        (master, begun) = next.follow(program, master)?;
        objects.wait_for(&store, PATIENCE)?;
        let took = begun.elapsed().as_secs_f64();
        let read = objects.read_some(&store)?;
        println!("round {round}: all found after {took:.2} s, {read} read");
    }
    drop((nodes, store));
    Ok(())
}
