//! Request traces: JSON lines, plain or gzipped, in the format of the Mooncake FAST'25 traces.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use serde::Deserialize;

use crate::lines;
use crate::trace_error::{LineProblem, MAX_REQUEST_BLOCKS, TraceError};

/// How many tokens a block has in the published traces.
pub(crate) const BLOCK_TOKENS: usize = 512;
/// How much of a trace may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Most requests that are read; later ones are ignored.
    pub requests: usize,
    /// Most distinct blocks; more are an error.
    pub distinct_blocks: u32,
}

impl TraceLimits {
    /// No limits but those of the type.
    pub const NONE: Self = Self { requests: usize::MAX, distinct_blocks: u32::MAX };
}

/// Requests in the order of their arrival.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The blocks of each request, from the start of its prompt, as indices into `hash_ids`.
    pub requests: Vec<Box<[u32]>>,
    /// When each request arrived, in milliseconds from the start of the trace. The times never decrease.
    pub arrivals_ms: Vec<u64>,
    /// The id of each distinct block, in the order of first appearance.
    pub hash_ids: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object with timestamp, input_length, output_length and hash_ids")]
struct Row {
    timestamp: u64,
    #[serde(rename = "input_length")]
    _input_length: u64,
    #[serde(rename = "output_length")]
    _output_length: u64,
    hash_ids: Vec<u64>,
}

impl Trace {
    /// Reads the file at `path`, plain or gzipped.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(path: &Path, limits: TraceLimits) -> Result<Trace, TraceError> {
        let mut rows = Rows::new(limits);
        lines::read(path, |line| rows.take(line))?;
        rows.finish(path)
    }

    /// How many blocks all requests name together.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.requests.iter().map(|blocks| blocks.len()).sum()
    }

    /// When the last request arrived, in milliseconds from the start of the trace.
    #[must_use]
    pub fn last_ms(&self) -> u64 {
        self.arrivals_ms.last().copied().unwrap_or(0)
    }

    /// How many blocks the longest request names.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.requests.iter().map(|blocks| blocks.len()).max().unwrap_or(0)
    }

    /// Writes the trace as JSON lines that [`Trace::read`] reads. The length of a prompt is that of its blocks, with
    /// 512 tokens each.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write(&self, mut writer: impl Write) -> io::Result<()> {
        for (blocks, at_ms) in self.requests.iter().zip(&self.arrivals_ms) {
            let ids: Vec<String> =
                blocks.iter().map(|&block| self.hash_ids[block as usize].to_string()).collect();
            let (tokens, ids) = (blocks.len() * BLOCK_TOKENS, ids.join(", "));
            writeln!(
                writer,
                r#"{{"timestamp": {at_ms}, "input_length": {tokens}, "output_length": 0, "hash_ids": [{ids}]}}"#
            )?;
        }
        writer.flush()
    }
}

/// Reads the rows of a file until enough are read.
struct Rows {
    builder: TraceBuilder,
    left: usize,
}

impl Rows {
    fn new(limits: TraceLimits) -> Self {
        Self { builder: TraceBuilder::new(limits.distinct_blocks), left: limits.requests }
    }

    fn take(&mut self, line: &[u8]) -> Result<ControlFlow<()>, LineProblem> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(ControlFlow::Break(())) };
        self.left = left;
        self.builder.add(line)?;
        Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn finish(self, path: &Path) -> Result<Trace, TraceError> {
        match self.builder.trace.requests.is_empty() {
            true => Err(TraceError::Empty { path: path.into() }),
            false => Ok(self.builder.trace),
        }
    }
}

/// Builds a trace request by request.
pub(crate) struct TraceBuilder {
    pub(crate) trace: Trace,
    index_of: HashMap<u64, u32>,
    most_blocks: u32,
}

impl TraceBuilder {
    pub(crate) fn new(most_blocks: u32) -> Self {
        Self { trace: Trace::default(), index_of: HashMap::new(), most_blocks }
    }

    fn add(&mut self, line: &[u8]) -> Result<(), LineProblem> {
        let row: Row = serde_json::from_slice(line).map_err(|error| not_a_request(&error))?;
        self.push(row.timestamp, &row.hash_ids)
    }

    /// Adds a request that arrived at `at_ms`, or with the previous one if that is later.
    pub(crate) fn push(&mut self, at_ms: u64, ids: &[u64]) -> Result<(), LineProblem> {
        check_ids(ids)?;
        let blocks: Result<_, _> = ids.iter().map(|&id| self.index(id)).collect();
        self.trace.requests.push(blocks?);
        self.trace.arrivals_ms.push(at_ms.max(self.trace.last_ms()));
        Ok(())
    }

    fn index(&mut self, id: u64) -> Result<u32, LineProblem> {
        let next = self.trace.hash_ids.len() as u32;
        if let Some(&index) = self.index_of.get(&id) {
            return Ok(index);
        }
        if next >= self.most_blocks {
            return Err(LineProblem::TooManyDistinctBlocks { most: self.most_blocks });
        }
        self.index_of.insert(id, next);
        self.trace.hash_ids.push(id);
        Ok(next)
    }
}

/// Checks that these ids can be the blocks of one request.
pub(crate) fn check_ids(ids: &[u64]) -> Result<(), LineProblem> {
    match ids.len() {
        0 => return Err(LineProblem::NoBlocks),
        count if count > MAX_REQUEST_BLOCKS => return Err(LineProblem::TooManyBlocks { count }),
        _ => {}
    }
    let mut seen = HashSet::with_capacity(ids.len());
    match ids.iter().find(|&&id| !seen.insert(id)) {
        Some(&id) => Err(LineProblem::RepeatedBlock { id }),
        None => Ok(()),
    }
}

pub(crate) fn not_a_request(error: &serde_json::Error) -> LineProblem {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    LineProblem::NotARequest { message, column: error.column() }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::PathBuf;

    use super::*;

    fn first(requests: usize) -> TraceLimits {
        TraceLimits { requests, ..TraceLimits::NONE }
    }

    fn parse(text: &str, limits: TraceLimits) -> Result<Trace, TraceError> {
        parse_from("t.jsonl", text.as_bytes(), limits)
    }

    fn parse_from(
        path: &str,
        reader: impl BufRead,
        limits: TraceLimits,
    ) -> Result<Trace, TraceError> {
        let (path, mut rows) = (Path::new(path), Rows::new(limits));
        lines::parse(path, reader, |line| rows.take(line))?;
        rows.finish(path)
    }

    fn row(timestamp: u64, ids: &str) -> String {
        format!(
            r#"{{"timestamp": {timestamp}, "input_length": 9, "output_length": 1, "hash_ids": [{ids}]}}"#
        ) + "\n"
    }

    #[test]
    fn ids_become_indices_in_order_of_appearance() {
        let text = row(0, "70, 5") + "\n" + &row(9, "70, 8, 5");
        let expected = Trace {
            requests: vec![Box::new([0, 1]), Box::new([0, 2, 1])],
            hash_ids: vec![70, 5, 8],
            arrivals_ms: vec![0, 9],
        };
        assert_eq!(parse(&text, TraceLimits::NONE), Ok(expected));
    }

    #[test]
    fn a_trace_that_was_written_is_read_again() {
        let trace = parse(&(row(0, "70, 5") + &row(9, "70, 8, 5")), TraceLimits::NONE).unwrap();
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        assert_eq!(parse(std::str::from_utf8(&text).unwrap(), TraceLimits::NONE), Ok(trace));
    }

    #[test]
    fn only_the_requests_that_are_wanted_are_read() {
        let text = row(0, "1") + &row(1, "2, 3") + "this is not read";
        let trace = parse(&text, first(2)).unwrap();
        assert_eq!((trace.requests.len(), trace.blocks(), trace.longest()), (2, 3, 2));
    }

    #[test]
    fn every_bad_line_is_named_with_its_problem() {
        let many = (0..=MAX_REQUEST_BLOCKS).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
        let rows = [
            ("{\n".to_owned(), "EOF while parsing an object (column 0)"),
            (
                "[1]\n".to_owned(),
                "invalid length 1, expected an object with timestamp, input_length, output_length and hash_ids (column 3)",
            ),
            (r#"{"timestamp": 1}"#.to_owned(), "missing field `input_length` (column 16)"),
            (row(0, "-1"), "invalid value: integer `-1`, expected u64 (column 71)"),
            (row(0, ""), "hash_ids is empty"),
            (
                row(0, "4, 5, 4"),
                "hash_ids holds 4 twice; an id stands for a block and all blocks before it",
            ),
            (row(0, &many), "16385 hash_ids, at most 16384 are allowed"),
        ];
        for (line, problem) in rows {
            let error = parse(&(row(0, "1") + &line), TraceLimits::NONE).unwrap_err();
            assert_eq!(error.to_string(), format!("line 2 of the trace t.jsonl: {problem}"));
        }
    }

    #[test]
    fn too_many_distinct_blocks_are_an_error() {
        let limits = TraceLimits { distinct_blocks: 2, ..TraceLimits::NONE };
        assert!(parse(&row(0, "7, 8"), limits).is_ok());
        let error = parse(&row(0, "7, 8, 9"), limits).unwrap_err().to_string();
        assert_eq!(error, "line 1 of the trace t.jsonl: more than 2 distinct blocks so far");
    }

    #[test]
    fn no_request_arrives_before_the_one_before_it() {
        let trace =
            parse(&(row(9, "1") + &row(3, "2") + &row(11, "3")), TraceLimits::NONE).unwrap();
        assert_eq!((trace.arrivals_ms.clone(), trace.last_ms()), (vec![9, 9, 11], 11));
    }

    #[test]
    fn an_endless_line_is_refused_without_reading_it_all() {
        let endless = io::repeat(b'x');
        let error = parse_from("t", BufReader::new(endless), first(1)).unwrap_err();
        let expected =
            TraceError::Line { path: "t".into(), line: 1, problem: LineProblem::TooLong };
        assert_eq!(error, expected);
    }

    #[test]
    fn an_empty_trace_is_refused() {
        assert_eq!(parse("\n\n", first(9)), Err(TraceError::Empty { path: "t.jsonl".into() }));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Trace::read(Path::new("/nowhere/t.gz"), first(1)).unwrap_err().to_string();
        assert!(error.starts_with("cannot open /nowhere/t.gz: "), "{error}");
    }

    #[test]
    fn a_truncated_archive_is_named_with_its_line() {
        let whole = std::fs::read(shipped()).unwrap();
        let path = std::env::temp_dir().join(format!("mooncake-cut-{}.gz", std::process::id()));
        std::fs::write(&path, &whole[..5_000]).unwrap();
        let error = Trace::read(&path, TraceLimits::NONE).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, TraceError::Read { line: 2.., .. }), "{error}");
    }

    #[test]
    fn the_shipped_trace_has_the_counts_of_its_readme() {
        let trace = Trace::read(&shipped(), TraceLimits::NONE).unwrap();
        let counts = (trace.requests.len(), trace.blocks(), trace.hash_ids.len(), trace.longest());
        assert_eq!(counts, (12_031, 288_500, 182_790, 247));
        assert_eq!(trace.last_ms(), 3_536_999);
    }

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/conversation_trace.jsonl.gz")
    }
}
