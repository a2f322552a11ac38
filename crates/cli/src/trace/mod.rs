//! `mooncake trace`: makes a trace for `mooncake sim` from the KV events of an engine, or from a log of requests.
//! Enter at [`main`].

mod args;
mod source;

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use mooncake_workload::{EventTrace, EventTraceConfig, LogCounts, RequestLog, Seen, Trace};

use self::args::TraceArgs;
pub(crate) use self::args::address as endpoint;
use crate::exit::{self, complain, say};

/// The flags of the program.
pub(crate) fn command() -> clap::Command {
    <TraceArgs as clap::CommandFactory>::command()
}

/// Runs the program with `args`, which lack its name. The status is 0, or 1 if there is no trace, or 2 for wrong
/// arguments.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let args: TraceArgs = match exit::parse("mooncake trace", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    match convert(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            complain(format_args!("mooncake trace: {reason}\n"));
            ExitCode::FAILURE
        }
    }
}

fn convert(args: &TraceArgs) -> Result<(), String> {
    let path = args.output.display();
    let failed = |error: std::io::Error| format!("cannot write {path}: {error}");
    // Opened first, so that a wrong path fails at once. An existing file is not emptied until the trace is ready.
    let output = OpenOptions::new().write(true).create(true).truncate(false).open(&args.output);
    let output = output.map_err(failed)?;
    let inputs = args.request_log.iter().map(|file| ("--request-log", file));
    let others = [("--events", &args.events), ("--record", &args.record)];
    let others = others.into_iter().filter_map(|(flag, file)| Some((flag, file.as_ref()?)));
    for (flag, file) in inputs.chain(others) {
        if is_same_file(&output, file) {
            return Err(format!("{flag} and --output name the same file, {path}"));
        }
    }
    let (trace, summary) = match args.request_log.is_empty() {
        true => from_events(args)?,
        false => from_requests(args)?,
    };
    output.set_len(0).map_err(failed)?;
    trace.write(BufWriter::new(output)).map_err(failed)?;
    say(format_args!("{summary}"));
    Ok(())
}

/// Makes a trace from KV events. Returns it with its summary.
fn from_events(args: &TraceArgs) -> Result<(Trace, String), String> {
    let (medium, same_request_ms) = (args.medium.clone(), args.same_request_ms);
    let mut events = EventTrace::new(EventTraceConfig { medium, same_request_ms });
    match (&args.endpoint, &args.events) {
        (Some(address), _) => source::listen(address, args, &mut events)?,
        (None, Some(file)) => source::read(file, &mut events)?,
        (None, None) => return Err("neither --endpoint nor --events is given".to_owned()),
    }
    let seen = events.seen();
    if seen.requests == 0 {
        return Err(format!(
            "{} batches of events stored nothing in the medium {:?}: there is no trace",
            seen.batches, args.medium
        ));
    }
    let trace = events.finish();
    let summary = sum_up_events(&seen, trace.hash_ids.len());
    Ok((trace, summary))
}

/// Makes a trace from logs of requests. Returns it with its summary.
fn from_requests(args: &TraceArgs) -> Result<(Trace, String), String> {
    let mut log = RequestLog::new(args.model.clone());
    for file in &args.request_log {
        log.read(file).map_err(|error| error.to_string())?;
    }
    let counts = log.counts();
    if counts.requests == 0 {
        return Err(format!(
            "no request names its blocks: {} records are of other kinds, {} of other models, {} have none",
            counts.passed_over, counts.of_other_models, counts.without_blocks
        ));
    }
    let trace = log.finish();
    let summary = sum_up_requests(&counts, trace.hash_ids.len());
    Ok((trace, summary))
}

fn is_same_file(open: &File, path: &Path) -> bool {
    let (Ok(one), Ok(other)) = (open.metadata(), path.metadata()) else { return false };
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn sum_up_events(seen: &Seen, distinct: usize) -> String {
    let Seen { batches, stored, requests, .. } = seen;
    let first = format!(
        "{requests} requests, {distinct} distinct blocks, from {stored} events in {batches} batches.\n"
    );
    let counts = [
        (seen.passed_over, "events of other types or media were passed over"),
        (
            seen.without_start,
            "prompts began before the first event; of them only the later part is known",
        ),
        (seen.too_long, "blocks were left out of requests that are too long or repeat themselves"),
    ];
    sum_up(first, seen.block_tokens, &counts)
}

fn sum_up_requests(counts: &LogCounts, distinct: usize) -> String {
    let first = format!("{} requests, {distinct} distinct blocks.\n", counts.requests);
    let rows = [
        (counts.passed_over, "records of other kinds were passed over"),
        (counts.of_other_models, "requests for other models were passed over"),
        (counts.without_blocks, "requests name no blocks and were left out"),
    ];
    sum_up(first, counts.block_tokens, &rows)
}

fn sum_up(mut summary: String, block_tokens: Option<u32>, counts: &[(usize, &str)]) -> String {
    if let Some(tokens) = block_tokens {
        let of = "give `mooncake sim --block-bytes` the bytes of so many";
        let _ = writeln!(summary, "A block has {tokens} tokens: {of}.");
    }
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        let _ = writeln!(summary, "{count} {what}.");
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program in a folder of its own, with a log of two requests in it. Returns the status and the folder.
    fn run(name: &str, args: &[&str]) -> (ExitCode, std::path::PathBuf) {
        let folder = std::env::temp_dir().join(format!("mooncake-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let record = |at_ms: u64, hashes: &str| {
            format!(
                r#"{{"schema": "dynamo.request.trace.v1", "event_type": "request_end", "request": {{"request_received_ms": {at_ms}, "replay": {{"trace_block_size": 16, "input_length": 32, "input_sequence_hashes": [{hashes}]}}}}}}"#
            )
        };
        std::fs::write(folder.join("later"), record(700, "7, 8")).unwrap();
        std::fs::write(folder.join("earlier"), record(300, "7, 9")).unwrap();
        std::fs::write(folder.join("old"), "what was there before").unwrap();
        let shown = |arg: &&str| arg.replace("DIR", &folder.display().to_string());
        (main(&args.iter().map(shown).collect::<Vec<_>>()), folder)
    }

    #[test]
    fn logs_of_requests_become_a_trace() {
        let args = ["--request-log", "DIR/later,DIR/earlier", "--output", "DIR/old"];
        let (status, folder) = run("request-logs", &args);
        assert_eq!(status, ExitCode::SUCCESS);
        let trace = Trace::read(&folder.join("old"), mooncake_workload::TraceLimits::NONE).unwrap();
        assert_eq!((trace.hash_ids, trace.arrivals_ms), (vec![7, 9, 8], vec![0, 400]));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_output_held_stays_if_there_is_no_trace() {
        for log in ["DIR/old", "DIR/missing"] {
            let args = ["--request-log", log, "--output", "DIR/old"];
            let (status, folder) = run("no-request-log", &args);
            assert_eq!(status, ExitCode::FAILURE, "{log}");
            let text = std::fs::read_to_string(folder.join("old")).unwrap();
            assert_eq!(text, "what was there before", "{log}");
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
}
