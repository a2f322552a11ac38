//! Makes a trace from a request log.
//!
//! NVIDIA Dynamo writes one record, `dynamo.request.trace.v1`, for each request that has ended. It has the time of
//! arrival, and for each block of the prompt a hash of that block and all blocks before it. Requests are recorded
//! whether or not their blocks were cached. The log has no text.

use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;

use crate::lines;
use crate::trace::{Trace, TraceBuilder, check_ids, not_a_request};
use crate::trace_error::{LineProblem, TraceError};

const SCHEMA: &str = "dynamo.request.trace.v1";
const REQUEST_END: &str = "request_end";

/// Counts of what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Requests of the trace so far.
    pub requests: usize,
    /// Records of other kinds, such as texts of requests and tool calls.
    pub passed_over: usize,
    /// Requests for other models than the one that was asked for.
    pub of_other_models: usize,
    /// Requests without hashes, or with an empty prompt.
    pub without_blocks: usize,
    /// How many tokens a block has.
    pub block_tokens: Option<u32>,
}

/// Builds a trace from the records of one or more files.
#[derive(Debug, Default)]
pub struct RequestLog {
    wanted_model: Option<String>,
    found_model: Option<String>,
    requests: Vec<Received>,
    counts: LogCounts,
}

#[derive(Debug)]
struct Received {
    at_ms: u64,
    hashes: Vec<u64>,
}

/// The fields that tell kinds of records apart.
#[derive(Deserialize)]
#[serde(expecting = "an object with schema and event_type, or with such an object as its event")]
struct Line {
    schema: Option<String>,
    event_type: Option<String>,
    event: Option<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    schema: Option<String>,
    event_type: Option<String>,
}

#[derive(Deserialize)]
struct Wrapped {
    event: Ended,
}

#[derive(Deserialize)]
struct Ended {
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    request_received_ms: u64,
    model: Option<String>,
    replay: Option<Replay>,
}

#[derive(Deserialize)]
struct Replay {
    trace_block_size: u32,
    input_length: u64,
    input_sequence_hashes: Vec<u64>,
}

impl RequestLog {
    /// An empty log. If a model is named, only its requests count.
    #[must_use]
    pub fn new(wanted_model: Option<String>) -> Self {
        Self { wanted_model, ..Self::default() }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> LogCounts {
        LogCounts { requests: self.requests.len(), ..self.counts }
    }

    /// Reads a file, plain or gzipped.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(&mut self, path: &Path) -> Result<(), TraceError> {
        lines::read(path, |line| self.take(line).map(ControlFlow::Continue))
    }

    /// The trace, with requests in the order of arrival. The first one arrives at 0 ms.
    #[must_use]
    pub fn finish(mut self) -> Trace {
        self.requests.sort_by_key(|request| request.at_ms);
        let start_ms = self.requests.first().map_or(0, |request| request.at_ms);
        let mut builder = TraceBuilder::new(u32::MAX);
        for request in self.requests {
            let pushed = builder.push(request.at_ms - start_ms, &request.hashes);
            pushed.expect("each request was checked when it was read");
        }
        builder.trace
    }

    fn take(&mut self, line: &[u8]) -> Result<(), LineProblem> {
        let wrong = |error: serde_json::Error| not_a_request(&error);
        let Line { schema, event_type, event } = serde_json::from_slice(line).map_err(wrong)?;
        let is_wrapped = event.is_some();
        let kind = event.unwrap_or(Kind { schema, event_type });
        if kind.schema.as_deref() != Some(SCHEMA) {
            return Err(LineProblem::NoRecord { schema: kind.schema.unwrap_or_default() });
        }
        if kind.event_type.as_deref() != Some(REQUEST_END) {
            self.counts.passed_over += 1;
            return Ok(());
        }
        let Ended { request } = match is_wrapped {
            true => serde_json::from_slice::<Wrapped>(line).map_err(wrong)?.event,
            false => serde_json::from_slice(line).map_err(wrong)?,
        };
        self.add(request)
    }

    fn add(&mut self, request: Request) -> Result<(), LineProblem> {
        if self.wanted_model.is_some() && request.model != self.wanted_model {
            self.counts.of_other_models += 1;
            return Ok(());
        }
        let Some(replay) = request.replay.filter(|it| !it.input_sequence_hashes.is_empty()) else {
            self.counts.without_blocks += 1;
            return Ok(());
        };
        check_ids(&replay.input_sequence_hashes)?;
        self.check_model(request.model)?;
        self.check_blocks(&replay)?;
        let (at_ms, hashes) = (request.request_received_ms, replay.input_sequence_hashes);
        self.requests.push(Received { at_ms, hashes });
        Ok(())
    }

    /// Requires that all requests are for one model. Hashes do not include the model, so equal hashes of two models
    /// would look like one block.
    fn check_model(&mut self, model: Option<String>) -> Result<(), LineProblem> {
        match (&self.found_model, model) {
            (Some(first), Some(second)) if *first != second => {
                Err(LineProblem::Models { first: first.clone(), second })
            }
            (None, found) => {
                self.found_model = found;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_blocks(&mut self, replay: &Replay) -> Result<(), LineProblem> {
        let &Replay { trace_block_size: block_tokens, input_length: tokens, .. } = replay;
        let found = replay.input_sequence_hashes.len();
        let expected = tokens.div_ceil(u64::from(block_tokens.max(1)));
        if block_tokens == 0 || expected != found as u64 {
            return Err(LineProblem::BlockCount { tokens, block_tokens, expected, found });
        }
        match *self.counts.block_tokens.get_or_insert(block_tokens) {
            first if first == block_tokens => Ok(()),
            first => Err(LineProblem::BlockTokens { first, second: block_tokens }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the manual of the schema shows it.
    fn record(at_ms: u64, model: &str, hashes: &[u64]) -> String {
        let tokens = hashes.len() * 64;
        let hashes = hashes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        format!(
            r#"{{"schema": "{SCHEMA}", "event_type": "request_end", "event_time_unix_ms": 1777312801000,
                "request": {{"request_id": "a", {model} "output_tokens": 16, "request_received_ms": {at_ms},
                "replay": {{"trace_block_size": 64, "input_length": {tokens}, "input_sequence_hashes": [{hashes}]}}}}}}"#
        )
        .replace('\n', "")
    }

    fn parse(model: Option<&str>, lines: &[String]) -> Result<(Trace, LogCounts), String> {
        let (path, mut log) = (Path::new("log"), RequestLog::new(model.map(str::to_owned)));
        let text = lines.join("\n");
        let read =
            lines::parse(path, text.as_bytes(), |line| log.take(line).map(ControlFlow::Continue));
        read.map_err(|error| error.to_string())?;
        let counts = log.counts();
        Ok((log.finish(), counts))
    }

    #[test]
    fn requests_come_in_order_of_their_arrival() {
        let wrapped = format!(r#"{{"timestamp": 12, "event": {}}}"#, record(1_000, "", &[9, 8]));
        let other = format!(r#"{{"schema": "{SCHEMA}", "event_type": "tool_end", "request": 5}}"#);
        let lines = [record(1_500, "", &[9, u64::MAX, 3]), wrapped, other];
        let (trace, counts) = parse(None, &lines).unwrap();
        let expected = Trace {
            requests: vec![Box::new([0, 1]), Box::new([0, 2, 3])],
            arrivals_ms: vec![0, 500],
            hash_ids: vec![9, 8, u64::MAX, 3],
        };
        assert_eq!(trace, expected);
        let block_tokens = Some(64);
        let expected = LogCounts { requests: 2, passed_over: 1, block_tokens, ..counts };
        assert_eq!((counts, counts.without_blocks), (expected, 0));
    }

    #[test]
    fn one_model_is_chosen_and_several_are_an_error() {
        let lines = [record(1, r#""model": "m","#, &[1]), record(2, r#""model": "n","#, &[1, 2])];
        let (trace, counts) = parse(Some("n"), &lines).unwrap();
        assert_eq!((trace.blocks(), counts.of_other_models), (2, 1));
        let expected = r#"line 2 of the trace log: a request for the model "n" after one for "m"; --model chooses one"#;
        assert_eq!(parse(None, &lines).unwrap_err(), expected);
    }

    #[test]
    fn what_has_no_blocks_is_counted() {
        let no_replay = format!(
            r#"{{"schema": "{SCHEMA}", "event_type": "request_end", "request": {{"request_received_ms": 1}}}}"#
        );
        let lines = [no_replay, record(5, "", &[]), record(7, "", &[1])];
        let (trace, counts) = parse(None, &lines).unwrap();
        assert_eq!((trace.arrivals_ms, counts.without_blocks), (vec![0], 2));
    }

    #[test]
    fn every_bad_line_is_named_with_its_problem() {
        let good = record(1, "", &[1, 2]);
        let rows = [
            (
                "1".to_owned(),
                "invalid type: integer `1`, expected an object with schema and event_type, or with such an object as its event (column 1)",
            ),
            ("{}".to_owned(), r#"the schema is "", expected "dynamo.request.trace.v1""#),
            (
                good.replace(".v1", ".v2"),
                r#"the schema is "dynamo.request.trace.v2", expected "dynamo.request.trace.v1""#,
            ),
            (
                good.replace("\"input_length\": 128", "\"input_length\": 129"),
                "input_length 129 in blocks of 64 makes 3 input_sequence_hashes, not 2",
            ),
            (
                good.replace("_size\": 64", "_size\": 0"),
                "input_length 128 in blocks of 0 makes 128 input_sequence_hashes, not 2",
            ),
            (
                good.replace("_size\": 64", "_size\": 65"),
                "blocks of 65 tokens after blocks of 64; convert the files of one model alone",
            ),
            (
                record(1, "", &[7, 7]),
                "hash_ids holds 7 twice; an id stands for a block and all blocks before it",
            ),
        ];
        for (line, problem) in rows {
            let error = parse(None, &[good.clone(), line]).unwrap_err();
            assert_eq!(error, format!("line 2 of the trace log: {problem}"));
        }
        let error = parse(None, &[good.replace("_received", "_recieved")]).unwrap_err();
        assert!(error.contains("missing field `request_received_ms`"), "{error}");
    }
}
