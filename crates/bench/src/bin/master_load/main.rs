//! Loads a running master over the wire: several connections, each with some requests in flight, batches of keys.
//!
//! `bench/master_load.py` starts a master, runs this, and prints a table. By hand, beside a master that holds nothing else:
//!
//! ```sh
//! cargo run --release -p mooncake-bench --bin master_load -- \
//!     --master 127.0.0.1:50051 --work exist --connections 4 --in-flight 4 --keys 1000 --seconds 3
//! ```
//!
//! Works: `exist` and `get` ask for keys that are there; `put` starts, ends and removes puts, and says that their ranges
//! were dropped. It mounts a segment that has no memory, since no byte of an object passes the master, and lets go of it in
//! the end. One line of `name value` pairs goes to the standard output: rates a second, latencies in microseconds, shares of
//! one processor.

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
/// How often the master hears from us, well within the least time that it is patient.
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
    // Another one each time: a master may remember that of a run that was cut short.
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
    };
    match control.call(&Request::MountSegment(mount))? {
        Reply::Mounted(MountOutcome::Ready) => {}
        other => return Err(LoadError::Answer { to: "the mount", got: format!("{other:?}") }),
    }
    let measured = std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let pings = scope.spawn(move || {
            // The channel closes when the load is over, however it ended.
            while stopped.recv_timeout(PING_EVERY)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                control.call(&Request::Ping {
                    segments: vec![segment],
                    unreachable: vec![],
                    reads: None,
                })?;
            }
            control.call(&Request::UnmountSegment { id: segment, grace_ms: 0 })
        });
        let measured = load::run(arguments, ME);
        drop(stop);
        pings.join().expect("pings do not panic")?;
        measured
    })?;
    Ok(measured)
}
