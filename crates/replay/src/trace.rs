//! Request traces: JSON lines, plain or gzipped, in the format of the Mooncake FAST'25 traces.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use crate::content;

/// Longest line that is read, in bytes.
const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most blocks in one request; with 512-token blocks, 8 million tokens.
pub(crate) const MAX_REQUEST_BLOCKS: usize = 16_384;
/// Most requests in one replay: a block is put at most once per request, and each put has its own generation.
pub(crate) const MAX_REQUESTS: usize = content::MAX_GENERATION as usize;
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// A trace cut to the requests that are replayed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The blocks of each request, from the start of its prompt, as indices into `hash_ids`.
    pub(crate) requests: Vec<Box<[u32]>>,
    /// The id of each distinct block, in the order of their first appearance.
    pub(crate) hash_ids: Vec<u64>,
    /// When the last request arrived, in milliseconds from the start of the trace.
    pub(crate) last_ms: u64,
}

/// Why a trace cannot be replayed. Lines count from 1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TraceError {
    #[error("cannot open the trace {}: {reason}; --trace names another", path.display())]
    Open { path: PathBuf, reason: String },
    #[error("cannot read line {line} of the trace {}: {reason}", path.display())]
    Read { path: PathBuf, line: usize, reason: String },
    #[error("line {line} of the trace {}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: LineProblem },
    #[error("the trace {} holds no request", path.display())]
    Empty { path: PathBuf },
}

/// What is wrong with one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LineProblem {
    #[error("{message} (column {column})")]
    NotARequest { message: String, column: usize },
    #[error("hash_ids is empty")]
    NoBlocks,
    #[error("{count} hash_ids, at most {MAX_REQUEST_BLOCKS} are allowed")]
    TooManyBlocks { count: usize },
    #[error("hash_ids holds {id} twice; an id stands for a block and all blocks before it")]
    RepeatedBlock { id: u64 },
    #[error("more than {} distinct blocks so far", content::MAX_BLOCKS)]
    TooManyDistinctBlocks,
    #[error("longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
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
    /// Reads the first `limit` requests of the file at `path`.
    pub(crate) fn read(path: &Path, limit: usize) -> Result<Trace, TraceError> {
        let open =
            |error: io::Error| TraceError::Open { path: path.into(), reason: error.to_string() };
        let mut reader = BufReader::new(File::open(path).map_err(open)?);
        let gzipped = reader.fill_buf().map_err(open)?.starts_with(&GZIP_MAGIC);
        if gzipped {
            Self::parse(path, BufReader::new(MultiGzDecoder::new(reader)), limit)
        } else {
            Self::parse(path, reader, limit)
        }
    }

    /// How many blocks all requests have together.
    #[cfg(test)]
    pub(crate) fn blocks(&self) -> usize {
        self.requests.iter().map(|blocks| blocks.len()).sum()
    }

    /// How many blocks the longest request has.
    pub(crate) fn longest(&self) -> usize {
        self.requests.iter().map(|blocks| blocks.len()).max().unwrap_or(0)
    }

    fn parse(path: &Path, mut reader: impl BufRead, limit: usize) -> Result<Trace, TraceError> {
        let limit = limit.min(MAX_REQUESTS);
        let mut builder = Builder::default();
        let mut text = Vec::new();
        for line in 1.. {
            if builder.trace.requests.len() == limit {
                break;
            }
            text.clear();
            let read =
                (&mut reader).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut text).map_err(
                    |error| TraceError::Read { path: path.into(), line, reason: error.to_string() },
                )?;
            if read == 0 {
                break;
            }
            if !text.trim_ascii().is_empty() {
                builder.add(&text).map_err(|problem| TraceError::Line {
                    path: path.into(),
                    line,
                    problem,
                })?;
            }
        }
        if builder.trace.requests.is_empty() {
            return Err(TraceError::Empty { path: path.into() });
        }
        Ok(builder.trace)
    }
}

struct Builder {
    trace: Trace,
    index_of: HashMap<u64, u32>,
}

impl Default for Builder {
    fn default() -> Self {
        let trace = Trace { requests: Vec::new(), hash_ids: Vec::new(), last_ms: 0 };
        Self { trace, index_of: HashMap::new() }
    }
}

impl Builder {
    fn add(&mut self, line: &[u8]) -> Result<(), LineProblem> {
        if line.len() as u64 > MAX_LINE_BYTES {
            return Err(LineProblem::TooLong);
        }
        let row: Row = serde_json::from_slice(line).map_err(|error| not_a_request(&error))?;
        match row.hash_ids.len() {
            0 => return Err(LineProblem::NoBlocks),
            count if count > MAX_REQUEST_BLOCKS => {
                return Err(LineProblem::TooManyBlocks { count });
            }
            _ => {}
        }
        let mut seen = HashSet::with_capacity(row.hash_ids.len());
        if let Some(&id) = row.hash_ids.iter().find(|&&id| !seen.insert(id)) {
            return Err(LineProblem::RepeatedBlock { id });
        }
        let blocks: Result<_, _> = row.hash_ids.iter().map(|&id| self.index(id)).collect();
        self.trace.requests.push(blocks?);
        self.trace.last_ms = self.trace.last_ms.max(row.timestamp);
        Ok(())
    }

    fn index(&mut self, id: u64) -> Result<u32, LineProblem> {
        let next = self.trace.hash_ids.len() as u32;
        if let Some(&index) = self.index_of.get(&id) {
            return Ok(index);
        }
        if next >= content::MAX_BLOCKS {
            return Err(LineProblem::TooManyDistinctBlocks);
        }
        self.index_of.insert(id, next);
        self.trace.hash_ids.push(id);
        Ok(next)
    }
}

fn not_a_request(error: &serde_json::Error) -> LineProblem {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    LineProblem::NotARequest { message, column: error.column() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, limit: usize) -> Result<Trace, TraceError> {
        Trace::parse(Path::new("t.jsonl"), text.as_bytes(), limit)
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
            last_ms: 9,
        };
        assert_eq!(parse(&text, usize::MAX), Ok(expected));
    }

    #[test]
    fn only_the_requests_that_are_wanted_are_read() {
        let text = row(0, "1") + &row(1, "2, 3") + "this is not read";
        let trace = parse(&text, 2).unwrap();
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
            let error = parse(&(row(0, "1") + &line), usize::MAX).unwrap_err();
            assert_eq!(error.to_string(), format!("line 2 of the trace t.jsonl: {problem}"));
        }
    }

    #[test]
    fn an_endless_line_is_refused_without_reading_it_all() {
        let endless = io::repeat(b'x');
        let error = Trace::parse(Path::new("t"), BufReader::new(endless), 1).unwrap_err();
        let expected =
            TraceError::Line { path: "t".into(), line: 1, problem: LineProblem::TooLong };
        assert_eq!(error, expected);
    }

    #[test]
    fn an_empty_trace_is_refused() {
        assert_eq!(parse("\n\n", 9), Err(TraceError::Empty { path: "t.jsonl".into() }));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = Trace::read(Path::new("/nowhere/t.gz"), 1).unwrap_err().to_string();
        assert!(error.starts_with("cannot open the trace /nowhere/t.gz: "), "{error}");
    }

    #[test]
    fn a_truncated_archive_is_named_with_its_line() {
        let whole = std::fs::read(shipped()).unwrap();
        let path = std::env::temp_dir().join(format!("mooncake-cut-{}.gz", std::process::id()));
        std::fs::write(&path, &whole[..5_000]).unwrap();
        let error = Trace::read(&path, usize::MAX).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(error, TraceError::Read { line: 2.., .. }), "{error}");
    }

    #[test]
    fn the_shipped_trace_has_the_counts_of_its_readme() {
        let trace = Trace::read(&shipped(), usize::MAX).unwrap();
        let counts = (trace.requests.len(), trace.blocks(), trace.hash_ids.len(), trace.longest());
        assert_eq!(counts, (12_031, 288_500, 182_790, 247));
        assert_eq!(trace.last_ms, 3_536_999);
    }

    fn shipped() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/conversation_trace.jsonl.gz")
    }
}
