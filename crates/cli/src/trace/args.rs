//! The command line of `mooncake trace`.

use std::path::PathBuf;

use clap::{ArgGroup, Parser};

/// Make a trace for `mooncake sim` from the KV events of an engine, or from a log of requests.
///
/// vLLM reports by `BlockStored` events which blocks it stored, and after which other block. `--kv-events-config` of
/// vLLM turns them on. This program joins the events into requests. It receives them from a publisher for a time, or
/// reads them from a file of batches, which --record writes.
///
/// An engine publishes nothing for blocks that it has. So a request with all blocks in the cache is not in the trace.
/// docs/sizing.md explains how to read the figures then.
///
/// A log of requests names the blocks of every request. NVIDIA Dynamo writes one if DYN_REQUEST_TRACE=1 is set.
#[derive(Debug, Parser)]
#[command(name = "mooncake trace", max_term_width = 110)]
#[command(group(ArgGroup::new("source").required(true).args(["endpoint", "events", "request_log"])))]
pub(super) struct TraceArgs {
    /// Endpoint of the engine's publisher, like tcp://127.0.0.1:5557.
    #[arg(long, value_name = "ENDPOINT", value_parser = address)]
    pub(super) endpoint: Option<String>,
    /// File of batches that were published before.
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,
    /// Files of request records of NVIDIA Dynamo (dynamo.request.trace.v1), plain or gzipped.
    #[arg(long, value_name = "FILES", value_delimiter = ',', num_args = 1..)]
    pub(super) request_log: Vec<PathBuf>,
    /// Only requests for this model. Needed if the log has several models.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["endpoint", "events"])]
    pub(super) model: Option<String>,
    /// How long to receive events, in seconds. SIGINT ends it earlier, and the events received by then count.
    #[arg(long, value_name = "N", default_value_t = 3600, conflicts_with_all = ["events", "request_log"],
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub(super) seconds: u64,
    /// Also write the received batches to this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["events", "request_log"])]
    pub(super) record: Option<PathBuf>,
    /// The trace to write.
    #[arg(long, value_name = "FILE")]
    pub(super) output: PathBuf,
    /// Skip events of other media. Events that name no medium are not skipped.
    #[arg(long, value_name = "NAME", default_value = "GPU", conflicts_with = "request_log")]
    pub(super) medium: String,
    /// Blocks that follow a request within this time, in milliseconds, belong to it, since engines store prompts step
    /// by step.
    #[arg(long, value_name = "MS", default_value_t = 2_000, conflicts_with = "request_log")]
    pub(super) same_request_ms: u64,
}

/// Parses an endpoint into `host:port`.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let address = text.strip_prefix("tcp://").unwrap_or(text);
    match mooncake_types::host_port::split(address) {
        Ok((host, Some(_))) if !host.is_empty() && host != "*" => Ok(address.to_owned()),
        _ => Err("expected an endpoint like tcp://127.0.0.1:5557".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_argument_is_named() {
        let rows: &[(&[&str], &str)] = &[
            (&["--output", "x"], "--endpoint"),
            (&["--events", "x"], "--output"),
            (&["--events", "x", "--endpoint", "a:1", "--output", "y"], "cannot be used with"),
            (&["--endpoint", "tcp://*:5557", "--output", "y"], "expected an endpoint"),
            (&["--endpoint", "ipc:///x", "--output", "y"], "expected an endpoint"),
            (&["--endpoint", "a:1", "--seconds", "0", "--output", "y"], "--seconds"),
            (&["--events", "x", "--record", "z", "--output", "y"], "cannot be used with"),
            (&["--events", "x", "--request-log", "z", "--output", "y"], "cannot be used with"),
            (&["--request-log", "x", "--record", "z", "--output", "y"], "cannot be used with"),
            (&["--request-log", "x", "--medium", "CPU", "--output", "y"], "cannot be used with"),
            (&["--events", "x", "--model", "m", "--output", "y"], "cannot be used with"),
        ];
        for (args, expected) in rows {
            let args = [&["mooncake trace"], *args].concat();
            let error = TraceArgs::try_parse_from(&args).expect_err(&args.join(" ")).to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
