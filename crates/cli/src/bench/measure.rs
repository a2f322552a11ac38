//! The measurements.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};
use mooncake_client::{
    Buffer, ErrorCode, GetTarget, PutSource, ReplicateConfig, ShownKey, SliceList, Store,
};
use mooncake_types::ByteSize;

use super::args::BenchArgs;
use super::row::{Row, Samples};
use super::stop::Stop;
use crate::objects::outcome::meaning;

/// Most bytes that lie in the pool at a time, unless one object is longer.
const MOST_BYTES: u64 = 64 << 20;
/// Most objects that lie in the pool at a time.
const MOST_OBJECTS: u64 = 256;
/// Keys in a batch of look-ups.
const LOOKUPS: usize = 128;
/// Length of the objects that are looked up.
const LOOKED_UP_BYTES: u64 = 4096;

/// Why a measurement ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    #[error("{operation} of {len}: {}", meaning(*.code))]
    Refused { operation: &'static str, len: ByteSize, code: ErrorCode },
    #[error("wrong bytes of {}", ShownKey(.key))]
    WrongBytes { key: String },
    #[error("{}, which was just put, is not there: the pool is full and evicted it, or lost it", ShownKey(.key))]
    Lost { key: String },
    #[error("interrupted")]
    Interrupted,
}

/// A run, and the store that it measures.
pub(super) struct Bench<'a> {
    store: &'a Store,
    args: &'a BenchArgs,
    stop: &'a Stop,
    /// The beginning of all its keys, which no other run has.
    prefix: String,
    bar: ProgressBar,
}

impl<'a> Bench<'a> {
    pub(super) fn new(store: &'a Store, args: &'a BenchArgs, stop: &'a Stop) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let prefix = format!("bench/{:x}-{:x}/", std::process::id(), now.as_nanos());
        Self { store, args, stop, prefix, bar: bar(args) }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn run(&self) -> Result<Vec<Row>, BenchError> {
        let mut rows = Vec::new();
        for &len in &self.args.lengths {
            let batch = self.args.batch.min((MOST_BYTES / len).max(1));
            rows.extend(self.put_and_get(len, 1)?);
            if batch > 1 {
                rows.extend(self.put_and_get(len, batch)?);
            }
        }
        rows.extend(self.look_up()?);
        Ok(rows)
    }

    /// Removes all objects of this run that are still there.
    pub(super) fn clean(&self) -> Result<(), ErrorCode> {
        self.bar.finish_and_clear();
        self.store.remove_by_regex(&format!("^{}", self.prefix), true).map(|_| ())
    }

    /// Puts and gets objects of this length, so many in a call, until the time is over.
    fn put_and_get(&self, len: u64, at_once: u64) -> Result<[Row; 2], BenchError> {
        self.bar.set_message(format!("put and get {}", ByteSize(len)));
        let objects = (MOST_BYTES / len).clamp(at_once, MOST_OBJECTS);
        let mut calls = Calls::new(self.store, len, at_once as usize);
        let groups = self.groups(objects as usize, at_once as usize);
        let (mut puts, mut gets) = (Samples::default(), Samples::default());
        let deadline = Instant::now() + 2 * self.time();
        loop {
            let begun = Instant::now();
            for (number, keys) in groups.iter().enumerate() {
                puts.push(calls.put(keys, number)?);
                self.check_stop()?;
            }
            for (number, keys) in groups.iter().enumerate() {
                gets.push(calls.get(keys, number)?);
                self.check_stop()?;
            }
            let keys: Vec<&str> = groups.iter().flatten().map(String::as_str).collect();
            // What cannot be removed now is removed at the end.
            let _ = self.store.remove(&keys, true);
            self.bar.inc(begun.elapsed().as_millis() as u64);
            if Instant::now() >= deadline {
                break;
            }
        }
        let row = |operation, samples| Row::of(operation, Some(len), at_once as usize, samples);
        Ok([row("put", puts), row("get", gets)])
    }

    /// Looks up objects that are there, one by one and many at once.
    fn look_up(&self) -> Result<Vec<Row>, BenchError> {
        self.bar.set_message("look up");
        let groups = self.groups(LOOKUPS, LOOKUPS);
        let keys: Vec<&str> = groups.iter().flatten().map(String::as_str).collect();
        Calls::new(self.store, LOOKED_UP_BYTES, LOOKUPS).put(&groups[0], 0)?;
        let mut rows = Vec::new();
        for at_once in [1, LOOKUPS] {
            let mut samples = Samples::default();
            let begun = Instant::now();
            for keys in keys.chunks(at_once).cycle() {
                let call = Instant::now();
                let answers = self.store.exist(keys);
                samples.push(call.elapsed());
                for (key, answer) in keys.iter().zip(answers) {
                    let len = ByteSize(LOOKED_UP_BYTES);
                    match answer {
                        Ok(true) => {}
                        Ok(false) => return Err(BenchError::Lost { key: (*key).to_owned() }),
                        Err(code) => {
                            return Err(BenchError::Refused { operation: "a look-up", len, code });
                        }
                    }
                }
                self.check_stop()?;
                if begun.elapsed() >= self.time() {
                    break;
                }
            }
            self.bar.inc(begun.elapsed().as_millis() as u64);
            rows.push(Row::of("exists", None, at_once, samples));
        }
        Ok(rows)
    }

    /// Keys of so many objects, in groups for one call each.
    fn groups(&self, objects: usize, at_once: usize) -> Vec<Vec<String>> {
        let key = |number: usize| format!("{}{number}", self.prefix);
        let group = |first: usize| (first * at_once..(first + 1) * at_once).map(key).collect();
        (0..objects / at_once).map(group).collect()
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    fn check_stop(&self) -> Result<(), BenchError> {
        if self.stop.has_come() { Err(BenchError::Interrupted) } else { Ok(()) }
    }
}

fn bar(args: &BenchArgs) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let measurements = 4.0 * args.lengths.len() as f64 + 2.0;
    let style = ProgressStyle::with_template("[{bar:32}] {msg}").expect("the template is valid");
    ProgressBar::new((1000.0 * args.seconds * measurements) as u64).with_style(style)
}

/// The memory of calls on objects of one length.
struct Calls<'a> {
    store: &'a Store,
    len: u64,
    sources: Vec<Buffer>,
    targets: Vec<Buffer>,
}

impl<'a> Calls<'a> {
    fn new(store: &'a Store, len: u64, at_once: usize) -> Self {
        let source = |number: usize| {
            let word = |at: u64| (at ^ (number as u64) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bytes = (0..len.div_ceil(8)).flat_map(|at| word(at).to_le_bytes());
            Buffer::from_vec(bytes.take(len as usize).collect())
        };
        let sources = (0..at_once).map(source).collect();
        let targets = (0..at_once).map(|_| Buffer::zeroed(len as usize)).collect();
        Self { store, len, sources, targets }
    }

    /// Marks the bytes with the number of the call, so that those of other calls are told from them.
    fn stamp(&mut self, call: usize) {
        for source in &mut self.sources {
            source.as_mut_slice()[..8].copy_from_slice(&(call as u64).to_le_bytes());
        }
    }

    fn put(&mut self, keys: &[String], call: usize) -> Result<Duration, BenchError> {
        self.stamp(call);
        let items: Vec<PutSource<'_>> = keys
            .iter()
            .zip(&self.sources)
            .map(|(key, source)| PutSource::new(key, SliceList::from(source.raw())))
            .collect();
        let begun = Instant::now();
        let results = self.store.put(&items, &ReplicateConfig::default());
        let took = begun.elapsed();
        let len = ByteSize(self.len);
        let refused = |code| BenchError::Refused { operation: "a put", len, code };
        results.into_iter().try_for_each(|result| result.map_err(refused))?;
        Ok(took)
    }

    fn get(&mut self, keys: &[String], call: usize) -> Result<Duration, BenchError> {
        self.stamp(call);
        let items: Vec<GetTarget<'_>> = keys
            .iter()
            .zip(&self.targets)
            .map(|(key, target)| GetTarget { key, dst: SliceList::from(target.raw()) })
            .collect();
        let begun = Instant::now();
        let results = self.store.get_into(&items);
        let took = begun.elapsed();
        let places = keys.iter().zip(self.targets.iter().zip(&self.sources));
        for (result, (key, (target, source))) in results.into_iter().zip(places) {
            let len = ByteSize(self.len);
            match result {
                Ok(_) if target.as_slice() == source.as_slice() => {}
                Ok(_) => return Err(BenchError::WrongBytes { key: key.clone() }),
                Err(ErrorCode::ObjectNotFound) => {
                    return Err(BenchError::Lost { key: key.clone() });
                }
                Err(code) => return Err(BenchError::Refused { operation: "a get", len, code }),
            }
        }
        Ok(took)
    }
}
