//! The command line of `mooncake bench`.

use std::path::PathBuf;

use clap::Parser;
use mooncake_types::ByteSize;

use crate::pool::PoolFlags;

/// Longest object that is measured.
const MOST_BYTES: u64 = 1 << 30;

/// Say what a pool gives from here: puts, gets and look-ups, one by one and in batches.
///
/// Each object is put, got once and compared byte by byte, so a get has its look-up in it. One thread calls, as one
/// rank of an engine does. At most 256 objects or 64 MB lie in the pool at a time, under keys that begin with bench/;
/// they are removed, also after Ctrl-C. A full pool evicts other objects for them.
///
/// The exit status is 0, 130 after Ctrl-C, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake bench", max_term_width = 110)]
pub(crate) struct BenchArgs {
    /// Lengths of the objects, with commas between them.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "4KB,64KB,1MB,16MB",
          value_parser = length)]
    pub(super) lengths: Vec<u64>,
    /// Objects in a batch. Batches of long objects are shorter: they have at most 64 MB.
    #[arg(long, value_name = "COUNT", default_value_t = 16, value_parser = clap::value_parser!(u64).range(2..=256))]
    pub(super) batch: u64,
    /// How long each of the two or three measurements of a length takes, in seconds, like 0.5.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(super) seconds: f64,
    /// Memory to lend to the pool of this process alone, if that is the pool (--master local://).
    #[arg(long, value_name = "SIZE", default_value = "1GB")]
    pub(super) lend: ByteSize,
    /// Compare with a former run, which --save has written.
    #[arg(long, value_name = "FILE")]
    pub(super) compare: Option<PathBuf>,
    /// Write the results to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Print the results as JSON instead of a table.
    #[arg(long, conflicts_with = "compare")]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) pool: PoolFlags,
}

fn length(text: &str) -> Result<u64, String> {
    let ByteSize(bytes) = text.parse::<ByteSize>().map_err(|error| error.to_string())?;
    match bytes {
        8..=MOST_BYTES => Ok(bytes),
        _ => Err("expected a length from 8 bytes to 1 GB".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.01..=3600.0).contains(seconds));
    seconds.ok_or_else(|| "expected seconds like 0.5, from 0.01 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_argument_is_named() {
        for (args, expected) in [
            (&["--lengths", "4KB,many"][..], "expected bytes like 1048576"),
            (&["--lengths", "7"], "from 8 bytes to 1 GB"),
            (&["--lengths", "2GB"], "from 8 bytes to 1 GB"),
            (&["--batch", "1"], "--batch"),
            (&["--seconds", "0"], "expected seconds like 0.5"),
            (&["--seconds", "NaN"], "expected seconds like 0.5"),
            (&["--json", "--compare", "x"], "cannot be used with"),
            (&["--lenghts", "4KB"], "--lengths"),
        ] {
            let parsed = BenchArgs::try_parse_from([&["mooncake bench"], args].concat());
            let error = parsed.expect_err(&args.join(" ")).to_string();
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
