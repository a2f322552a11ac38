//! Files of JSON lines, plain or gzipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::trace_error::{LineProblem, MAX_LINE_BYTES, TraceError};

const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// Calls `take` with each line of a file that is not blank, until `take` breaks.
pub(crate) fn read(
    path: &Path,
    take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, LineProblem>,
) -> Result<(), TraceError> {
    let open = |error: io::Error| TraceError::Open { path: path.into(), reason: error.to_string() };
    let mut reader = BufReader::new(File::open(path).map_err(open)?);
    match reader.fill_buf().map_err(open)?.starts_with(&GZIP_MAGIC) {
        true => parse(path, BufReader::new(MultiGzDecoder::new(reader)), take),
        false => parse(path, reader, take),
    }
}

/// As [`read`], for the lines of a reader. `path` is used in errors.
pub(crate) fn parse(
    path: &Path,
    mut reader: impl BufRead,
    mut take: impl FnMut(&[u8]) -> Result<ControlFlow<()>, LineProblem>,
) -> Result<(), TraceError> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let read = (&mut reader).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut text).map_err(
            |error| TraceError::Read { path: path.into(), line, reason: error.to_string() },
        )?;
        if read == 0 {
            break;
        }
        if text.trim_ascii().is_empty() {
            continue;
        }
        let taken = match text.len() as u64 > MAX_LINE_BYTES {
            true => Err(LineProblem::TooLong),
            false => take(&text),
        };
        match taken {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(problem) => return Err(TraceError::Line { path: path.into(), line, problem }),
        }
    }
    Ok(())
}
