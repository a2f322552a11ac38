//! The calls of one client: it puts, gets and removes values that describe themselves until it is told to end.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_types::Chance;

use crate::history::{Call, Outcome, Recorder};
use crate::value::{self, ValueId};

/// How many keys all clients write and remove.
pub(crate) const KEYS: u64 = 48;

/// How often a thread puts a key that is never replaced or removed.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// How long the final read retries keys that must exist.
const SEARCH: Duration = Duration::from_secs(60);

/// How many keys one call of the final read names.
const BATCH: usize = 16;

/// A client of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkloadArgs {
    /// The name of the client's host.
    #[arg(long)]
    name: String,
    /// How often the client was started before.
    #[arg(long)]
    start: u64,
    /// The address of the client's host.
    #[arg(long)]
    host: String,
    /// The address of the coordinator.
    #[arg(long)]
    master: String,
    /// The file for the client's history.
    #[arg(long)]
    history: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Read the keys in this file, and end. The first word of each line is a key. The second says whether the key must
    /// exist.
    #[arg(long)]
    read: Option<PathBuf>,
}

/// Runs a client until its standard input ends, or with `read`, until all keys were read.
///
/// # Errors
/// If the history cannot be written, or the keys cannot be read.
pub(crate) fn main(args: &WorkloadArgs) -> Result<(), String> {
    let recorder = Recorder::create(&args.history).map_err(|error| error.to_string())?;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Only the end of the input matters.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ends.store(true, Ordering::Relaxed);
        });
        let Some(store) = open(args, &ends) else { return Ok(()) };
        let next = AtomicU64::new(1);
        if let Some(path) = &args.read {
            let mut worker = Worker::new(args, 0, &store, &recorder, &next);
            worker.read_everything(path)?;
            // The scope would wait for the thread that reads the input.
            std::process::exit(0)
        } else {
            std::thread::scope(|scope| {
                for thread in 0..args.threads {
                    let mut worker = Worker::new(args, thread, &store, &recorder, &next);
                    let ends = &ends;
                    scope.spawn(move || worker.work_until(ends));
                }
            });
            Ok(())
        }
    })
}

/// Opens the store, and retries while no master answers. `None` if the client is told to end first.
fn open(args: &WorkloadArgs, ends: &AtomicBool) -> Option<Store> {
    while !ends.load(Ordering::Relaxed) {
        let config = StoreConfig {
            local_hostname: args.host.clone(),
            master: args.master.clone(),
            segment_bytes: 0,
            // Hosts share no memory in a real cluster.
            transports: "tcp".parse().expect("a transport"),
            ..StoreConfig::default()
        };
        match Store::open(config) {
            Ok(store) => return Some(store),
            Err(error) => eprintln!("the store does not open: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    None
}

struct Worker<'a> {
    name: String,
    client: u64,
    start: u64,
    store: &'a Store,
    recorder: &'a Recorder,
    next: &'a AtomicU64,
    chance: Chance,
    kept: u64,
}

impl<'a> Worker<'a> {
    fn new(
        args: &WorkloadArgs,
        thread: u64,
        store: &'a Store,
        recorder: &'a Recorder,
        next: &'a AtomicU64,
    ) -> Self {
        let digits = args.name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let client = digits.parse().unwrap_or(0);
        let seed = args.seed ^ (client << 48 | args.start << 32 | thread << 24);
        let chance = Chance::new(Chance::new(seed).bits());
        let name = format!("{}.{}.{thread}", args.name, args.start);
        Self { name, client, start: args.start, store, recorder, next, chance, kept: 0 }
    }

    fn work_until(&mut self, ends: &AtomicBool) {
        let mut kept_at = Instant::now();
        while !ends.load(Ordering::Relaxed) {
            match self.chance.below(20) {
                0..9 => self.get_some(),
                9..11 => self.get_kept(),
                11..16 => self.write(Call::Upsert),
                16..18 => self.write(Call::Put),
                _ => self.remove(),
            }
            if kept_at.elapsed() >= KEEP_EVERY {
                kept_at = Instant::now();
                self.keep();
            }
            std::thread::sleep(Duration::from_millis(2 + self.chance.below(20)));
        }
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.chance.below(KEYS))
    }

    fn new_value(&mut self) -> ValueId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.client << 48 | self.start << 32 | number
    }

    fn get_some(&mut self) {
        let count = if self.chance.below(4) == 0 { 3 } else { 1 };
        let mut keys: Vec<String> = (0..count).map(|_| self.key()).collect();
        keys.sort();
        keys.dedup();
        self.get(&keys);
    }

    /// Reads a key that some client may have put for good. It may not exist.
    fn get_kept(&mut self) {
        let client = 1 + self.chance.below(6);
        let number = self.chance.below(self.kept + 1);
        let thread = self.chance.below(2);
        self.get(&[format!("kept-{client}-0-{thread}-{number}")]);
    }

    fn get(&mut self, keys: &[String]) -> Vec<Outcome> {
        let begin = |key: &String| self.recorder.begin(&self.name, Call::Get, key, 0);
        let ids: Vec<u64> = keys.iter().map(begin).collect();
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let found = self.store.get(&names).into_iter().zip(keys).zip(ids);
        let judge = |((got, key), id): ((Result<Buffer, ErrorCode>, &String), u64)| {
            let outcome = match got {
                Ok(buffer) => match value::read(key, &buffer.into_vec()) {
                    Ok(value) => Outcome::Got(value),
                    Err(text) => Outcome::Wrong(text),
                },
                Err(ErrorCode::ObjectNotFound) => Outcome::Missing,
                Err(code) => Outcome::Failed(code.to_string()),
            };
            self.recorder.end(id, &outcome);
            outcome
        };
        found.map(judge).collect()
    }

    fn write(&mut self, call: Call) {
        let key = self.key();
        // Keys with an even number get two replicas.
        let is_even = key.ends_with(['0', '2', '4', '6', '8']);
        let len = 1 << (4 + self.chance.below(14));
        let len = len + self.chance.below(len);
        self.write_value(call, &key, len as usize, if is_even { 2 } else { 1 });
    }

    /// Puts a key that no client replaces or removes.
    fn keep(&mut self) {
        let thread = self.name.rsplit('.').next().unwrap_or_default();
        let key = format!("kept-{}-{}-{thread}-{}", self.client, self.start, self.kept);
        self.kept += 1;
        let len = 1000 + self.chance.below(15_000);
        let replicas = 1 + (self.kept % 2) as u32;
        self.write_value(Call::Put, &key, len as usize, replicas);
    }

    fn write_value(&mut self, call: Call, key: &str, len: usize, replica_num: u32) {
        let id = self.new_value();
        let bytes = value::make(key, id, len);
        let len = bytes.len() as u64;
        let buffer = Buffer::from_vec(bytes);
        let sources = [PutSource::new(key, SliceList::from(buffer.raw()))];
        let config = ReplicateConfig { replica_num, ..ReplicateConfig::default() };
        let number = self.recorder.begin(&self.name, call, key, id);
        let written = match call {
            Call::Put => self.store.put(&sources, &config),
            _ => self.store.upsert(&sources, &config),
        };
        let outcome = ended(written);
        self.recorder.end(number, &outcome);
        if outcome == Outcome::Done {
            self.locate(key, id, len);
        }
    }

    /// Records the hosts of a value that was just put. The length shows whether it is still that value. Two values of
    /// equal length are rare, and were put at about the same time.
    fn locate(&self, key: &str, id: ValueId, len: u64) {
        let Some(Ok(found)) = self.store.locate(&[key]).pop() else { return };
        if found.len == len {
            let stripes = found.replicas.iter().flat_map(|replica| &replica.stripes);
            let hosts =
                stripes.map(|stripe| stripe.segment.endpoint.to_string()).collect::<Vec<_>>();
            self.recorder.place(key, id, &hosts);
        }
    }

    fn remove(&mut self) {
        let key = self.key();
        let force = self.chance.below(8) > 0;
        let number = self.recorder.begin(&self.name, Call::Remove, &key, 0);
        let outcome = ended(self.store.remove(&[&key], force));
        self.recorder.end(number, &outcome);
    }

    /// Reads all keys of a file. Keys that must exist are read again until they are found, or until [`SEARCH`] is
    /// over.
    fn read_everything(&mut self, path: &PathBuf) -> Result<(), String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let (needed, others): (Vec<_>, Vec<_>) = lines.partition(|(_, needed)| *needed == "true");
        let names = |lines: Vec<(&str, &str)>| -> Vec<String> {
            lines.into_iter().map(|(key, _)| key.to_owned()).collect()
        };
        for keys in names(others).chunks(BATCH) {
            self.get(keys);
        }
        let (mut left, begun) = (names(needed), Instant::now());
        while !left.is_empty() && begun.elapsed() < SEARCH {
            let mut missing = Vec::new();
            for keys in left.chunks(BATCH) {
                let outcomes = self.get(keys).into_iter().zip(keys);
                missing.extend(outcomes.filter_map(|(outcome, key)| {
                    (!matches!(outcome, Outcome::Got(_))).then(|| key.clone())
                }));
            }
            left = missing;
            std::thread::sleep(Duration::from_millis(100));
        }
        eprintln!("everything was read within {:?}; missing: {left:?}", begun.elapsed());
        Ok(())
    }
}

/// The outcome of a call on one key.
fn ended(results: Vec<Result<(), ErrorCode>>) -> Outcome {
    match results.first() {
        Some(Ok(())) => Outcome::Done,
        Some(Err(ErrorCode::ObjectNotFound)) => Outcome::Missing,
        Some(Err(code)) => Outcome::Failed(code.to_string()),
        None => Outcome::Failed("no answer".to_owned()),
    }
}
