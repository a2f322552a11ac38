//! Runs the load, and measures it.

use std::fmt;
use std::time::{Duration, Instant};

use mooncake_types::ClientId;

use crate::arguments::Arguments;
use crate::connection::{Connection, LoadError};
use crate::work::{Stage, Work};

/// How many keys the requests name that store objects before the load.
const STORED_AT_ONCE: usize = 1000;

/// The results of a load.
pub(crate) struct Figures {
    seconds: f64,
    keys_per_request: usize,
    /// How long each request took until its reply, in microseconds, sorted.
    latencies_us: Vec<u32>,
    /// How many processors the master used, if its process id was given; and how many this process used.
    master_cpus: Option<f64>,
    own_cpus: f64,
}

impl Figures {
    fn quantile(&self, share: f64) -> u32 {
        let last = self.latencies_us.len().saturating_sub(1);
        self.latencies_us.get((last as f64 * share) as usize).copied().unwrap_or(0)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = self.latencies_us.len() as f64 / self.seconds;
        let keys = requests * self.keys_per_request as f64;
        write!(f, "requests_per_s {requests:.0} keys_per_s {keys:.0}")?;
        write!(f, " p50_us {} p99_us {}", self.quantile(0.5), self.quantile(0.99))?;
        if let Some(cpus) = self.master_cpus {
            write!(f, " master_cpus {cpus:.2}")?;
        }
        write!(f, " own_cpus {:.2}", self.own_cpus)
    }
}

/// Stores the objects, and then runs all connections for the given time.
///
/// # Errors
/// The first error of a connection.
pub(crate) fn run(arguments: &Arguments, client: ClientId) -> Result<Figures, LoadError> {
    let stored = batches("stored", 0, arguments.objects / arguments.keys, arguments.keys);
    let open = || Connection::open(&arguments.master, client);
    let mut connections =
        (0..arguments.connections).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    store(&mut connections[0], &stored)?;
    let master_began = arguments.master_pid.and_then(cpu_seconds);
    let own_began = cpu_seconds(std::process::id() as usize);
    let begin = Instant::now();
    let until = begin + Duration::from_secs(arguments.seconds as u64);
    let worked: Vec<_> = std::thread::scope(|scope| {
        let stored = &stored;
        let work = |(number, connection)| {
            scope.spawn(move || Worker::new(arguments, number, stored, connection).run(until))
        };
        let threads: Vec<_> = connections.into_iter().enumerate().map(work).collect();
        threads.into_iter().map(|thread| thread.join().expect("workers do not panic")).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let used = |pid, began: Option<f64>| Some((cpu_seconds(pid)? - began?) / seconds);
    let mut latencies_us = Vec::new();
    for latencies in worked {
        latencies_us.extend(latencies?);
    }
    latencies_us.sort_unstable();
    Ok(Figures {
        seconds,
        keys_per_request: arguments.keys,
        latencies_us,
        master_cpus: arguments.master_pid.and_then(|pid| used(pid, master_began)),
        own_cpus: used(std::process::id() as usize, own_began).unwrap_or(0.0),
    })
}

/// Batches of keys of about 120 bytes.
fn batches(name: &str, first: usize, count: usize, keys: usize) -> Vec<Vec<String>> {
    let key = |number: usize| format!("Qwen/Qwen3-32B@load@{name}@pp_rank:0@{number:0>80x}");
    (first..first + count).map(|at| (at * keys..(at + 1) * keys).map(key).collect()).collect()
}

/// Puts all keys, [`STORED_AT_ONCE`] in each request.
fn store(connection: &mut Connection, stored: &[Vec<String>]) -> Result<(), LoadError> {
    for keys in stored.concat().chunks(STORED_AT_ONCE) {
        let granted = connection.call(&Stage::Start.request(Work::Put, keys))?;
        let end = Stage::Start.after(granted)?.unwrap_or(Stage::Remove);
        connection.call(&end.request(Work::Put, keys))?;
    }
    Ok(())
}

/// A connection with its requests in flight.
struct Worker<'a> {
    work: Work,
    connection: Connection,
    /// For puts, a batch of keys for each slot; otherwise empty.
    keys: Vec<Vec<String>>,
    stored: &'a [Vec<String>],
    slots: Vec<RequestSlot>,
    latencies_us: Vec<u32>,
    /// The number of the next batch to look up.
    turn: usize,
}

struct RequestSlot {
    id: u64,
    stage: Stage,
    sent: Instant,
}

impl<'a> Worker<'a> {
    fn new(
        arguments: &Arguments,
        number: usize,
        stored: &'a [Vec<String>],
        connection: Connection,
    ) -> Self {
        let slots = arguments.in_flight;
        let keys = match arguments.work {
            Work::Put => batches("put", number * slots, slots, arguments.keys),
            Work::Exist | Work::Get => Vec::new(),
        };
        Self {
            work: arguments.work,
            connection,
            keys,
            stored,
            slots: Vec::with_capacity(slots),
            latencies_us: Vec::new(),
            // Connections start at different batches.
            turn: number * 7919,
        }
    }

    /// Keeps all slots busy until the time is over, then waits for the replies in flight.
    fn run(mut self, until: Instant) -> Result<Vec<u32>, LoadError> {
        for slot in 0..self.slots.capacity() {
            let begun = self.send(slot, Stage::first(self.work));
            self.slots.push(begun);
        }
        self.connection.flush()?;
        let mut busy = self.slots.len();
        while busy > 0 {
            let (id, reply) = self.connection.answer()?;
            let at = self.slots.iter().position(|slot| slot.id == id);
            let at = at.ok_or_else(|| LoadError::Answer {
                to: "a request",
                got: format!("one to request {id}, which was not sent"),
            })?;
            let took = self.slots[at].sent.elapsed();
            self.latencies_us.push(took.as_micros() as u32);
            let next = self.slots[at].stage.after(reply)?;
            if next.is_none() && Instant::now() >= until {
                busy -= 1;
                continue;
            }
            self.slots[at] = self.send(at, next.unwrap_or(Stage::first(self.work)));
            self.connection.flush()?;
        }
        Ok(self.latencies_us)
    }

    fn send(&mut self, slot: usize, stage: Stage) -> RequestSlot {
        let batch = match stage {
            Stage::Ask => {
                self.turn += 1;
                self.turn % self.stored.len()
            }
            _ => slot,
        };
        let keys = if self.work == Work::Put { &self.keys[batch] } else { &self.stored[batch] };
        let id = self.connection.queue(&stage.request(self.work, keys));
        RequestSlot { id, stage, sent: Instant::now() }
    }
}

/// The CPU time of a process so far, in seconds, with a resolution of a hundredth.
fn cpu_seconds(pid: usize) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything. User and system time are the 12th and 13th field after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / 100.0)
}
