//! Loads a running master over the wire: several connections, each with several batched requests in flight.
//!
//! `bench/master_load.py` starts a master, runs this program, and prints a table. By hand, with a master that has no
//! other objects:
//!
//! ```sh
//! cargo run --release -p mooncake-bench --bin master_load -- \
//!     --master 127.0.0.1:50051 --work exist --connections 4 --in-flight 4 --keys 1000 --seconds 3
//! ```
//!
//! With `--work exist` or `get`, the requests look up stored keys. With `put`, they start and end puts, remove the
//! objects, and report the ranges as dropped. The program mounts a segment without memory, since no byte of an object
//! passes through the master, and unmounts it at the end. It prints one line of `name value` pairs: rates per second,
//! latencies in microseconds, and used processors.

#![forbid(unsafe_code)]

mod arguments;
mod connection;
mod load;
mod work;

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use mooncake_types::{ClientId, MountOutcome, MountSegment, Reply, Request, SegmentId};

use crate::arguments::Arguments;
use crate::connection::{Connection, LoadError};
use crate::load::Figures;

const ME: ClientId = ClientId(0x10AD);
const NAME: &str = "127.0.0.1:9";
/// Time between two heartbeats, well within the shortest client TTL.
const PING_EVERY: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let result = Arguments::parse(std::env::args().skip(1)).map_err(LoadError::Usage);
    match result.and_then(|arguments| run(&arguments)) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Figures, LoadError> {
    let mut control = Connection::open(&arguments.master, ME)?;
    // A new id for each run: the master may still know the segment of a run that was cut short.
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let segment = SegmentId(since_1970.as_nanos());
    let mount = MountSegment {
        id: segment,
        name: NAME,
        endpoint: NAME,
        len: 2 * work::OBJECT_BYTES * (arguments.objects + arguments.spare()) as u64,
        seen_epoch: control.epoch(),
        is_empty: true,
        run: 1,
        medium: mooncake_types::Medium::Memory,
        domains: &[],
        seal_key: None,
    };
    match control.call(&Request::MountSegment(mount))? {
        Reply::Mounted(MountOutcome::Ready) => {}
        other => return Err(LoadError::Answer { to: "the mount", got: format!("{other:?}") }),
    }
    let measured = std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let pings = scope.spawn(move || {
            // The channel closes when the load has ended, with or without an error.
            while stopped.recv_timeout(PING_EVERY)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                control.call(&Request::Ping {
                    segments: vec![segment],
                    unreachable: vec![],
                    reads: None,
                })?;
            }
            control.call(&Request::UnmountSegment { id: segment, grace_ms: 0, failure: "" })
        });
        let measured = load::run(arguments, ME);
        drop(stop);
        pings.join().expect("pings do not panic")?;
        measured
    })?;
    Ok(measured)
}
