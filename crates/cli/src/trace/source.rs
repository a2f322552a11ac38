//! The sources of KV events: a publisher, or a file.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use mooncake_workload::{BadBatch, EventBatch, EventTrace};
use tokio::sync::oneshot;

use super::args::TraceArgs;
use crate::exit::complain;
use crate::stop_signal::StopSignal;

/// Time between two progress lines.
const PROGRESS: Duration = Duration::from_secs(5);

/// Counts lost batches, by gaps in their numbers, and messages that are no batches.
#[derive(Default)]
struct Losses {
    last: Option<u64>,
    missed: u64,
    unreadable: u64,
}

/// Reads the batches that a publisher sends from now on.
pub(super) fn listen(
    address: &str,
    args: &TraceArgs,
    events: &mut EventTrace,
) -> Result<(), String> {
    let mut record = args.record.as_ref().map(|path| Record::create(path)).transpose()?;
    let mut progress = Progress::start();
    let (mut losses, mut unwritten) = (Losses::default(), None);
    let seconds = Duration::from_secs(args.seconds);
    // Engines ask for no token.
    let followed =
        mooncake_kv_events::follow((address, ""), (seconds, stop()?), |number, bytes| {
            losses.note(number);
            if let Some(record) = &mut record
                && let Err(error) = record.write(bytes)
            {
                unwritten.get_or_insert(error);
            }
            match EventBatch::read(&mut &bytes[..]) {
                Ok(batch) => events.take(&batch),
                Err(_) => losses.unreadable += 1,
            }
            progress.show(events);
        });
    let ended = followed.map_err(|error| format!("the publisher at {address}: {error}"));
    losses.tell();
    match (ended, unwritten) {
        (_, Some(error)) => Err(error),
        // If the publisher fails, the batches received so far still count.
        (Err(reason), None) if events.seen().batches > 0 => {
            complain(format_args!("mooncake trace: {reason}; what came before counts\n"));
            record.map_or(Ok(()), Record::finish)
        }
        (ended, None) => ended.and_then(|()| record.map_or(Ok(()), Record::finish)),
    }
}

/// Reads the batches of a file.
pub(super) fn read(path: &Path, events: &mut EventTrace) -> Result<(), String> {
    let shown = path.display();
    let bytes = fs::read(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut rest = &bytes[..];
    let mut progress = Progress::start();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        match EventBatch::read(&mut rest) {
            Ok(batch) => events.take(&batch),
            // A recording that was interrupted ends within a batch.
            Err(BadBatch::Cut) if events.seen().batches > 0 => {
                complain(format_args!(
                    "mooncake trace: {shown} ends within a batch, at byte {at}\n"
                ));
                return Ok(());
            }
            Err(error) => return Err(format!("{shown}, at byte {at}: {error}")),
        }
        progress.show(events);
    }
    Ok(())
}

/// Completes at SIGINT, SIGTERM or SIGHUP.
fn stop() -> Result<impl Future<Output = ()>, String> {
    let mut signal =
        StopSignal::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let (told, stop) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = signal.wait();
        // The receiver is gone if listening ended by itself.
        let _ = told.send(());
    });
    Ok(async {
        if stop.await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

impl Losses {
    fn note(&mut self, number: u64) {
        let next = self.last.map_or(number, |last| last.wrapping_add(1));
        self.missed = self.missed.saturating_add(number.saturating_sub(next));
        self.last = Some(number);
    }

    fn tell(&self) {
        for (count, what) in [
            (self.missed, "batches were lost on the way"),
            (self.unreadable, "messages were no KV events"),
        ] {
            if count > 0 {
                complain(format_args!("mooncake trace: {count} {what}\n"));
            }
        }
    }
}

/// The file that `--record` names.
struct Record {
    file: BufWriter<File>,
    shown: String,
}

impl Record {
    fn create(path: &Path) -> Result<Self, String> {
        let shown = path.display().to_string();
        let file = File::create(path).map_err(|error| format!("cannot write {shown}: {error}"))?;
        Ok(Self { file: BufWriter::new(file), shown })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file.write_all(bytes).map_err(|error| format!("cannot write {}: {error}", self.shown))
    }

    fn finish(mut self) -> Result<(), String> {
        self.file.flush().map_err(|error| format!("cannot write {}: {error}", self.shown))
    }
}

/// Prints a progress line every few seconds.
struct Progress {
    next: Instant,
}

impl Progress {
    fn start() -> Self {
        Self { next: Instant::now() + PROGRESS }
    }

    fn show(&mut self, events: &EventTrace) {
        if Instant::now() < self.next {
            return;
        }
        let seen = events.seen();
        let (batches, requests) = (seen.batches, seen.requests);
        complain(format_args!("{batches} batches, {requests} requests so far\n"));
        self.next = Instant::now() + PROGRESS;
    }
}
