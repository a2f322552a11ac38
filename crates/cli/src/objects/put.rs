//! `mooncake put`: an object out of a file or of standard input. Enter at [`main`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use mooncake_client::{Buffer, PutItem, PutSource, ReplicateConfig, SliceList, SoftPin, Store};
use mooncake_types::limits::MAX_REPLICAS;
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::Output;
use super::parts::{self, MoveError, PART_BYTES, only};
use crate::pool::{Pool, PoolFlags};
use crate::quantity::Milliseconds;

const PROGRAM: &str = "mooncake put";
/// Most bytes that are read from a pipe, whose length is not known before.
const MOST_PIPED_BYTES: u64 = 16 << 30;

/// Put an object whose bytes come from a file, or from standard input.
///
/// A large file moves in parts of 16 MiB; at a terminal a bar shows how far it is. What comes through a pipe, and what
/// replaces an object, is read into memory first.
///
/// The exit status is 0, 4 if the key has an object already, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake put", max_term_width = 110)]
pub(crate) struct PutArgs {
    /// The key of the object.
    #[arg(value_name = "KEY")]
    key: String,
    /// The file with its bytes; - is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Replace the object that the key has. Readers get the whole old one or the whole new one.
    #[arg(long)]
    replace: bool,
    /// How many replicas to make, each on a segment of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REPLICAS)))]
    replicas: u32,
    /// Pin it softly for this long, like 10m: it is evicted only if nothing else is left.
    #[arg(long, value_name = "DURATION", conflicts_with = "hard_pin")]
    soft_pin: Option<Milliseconds>,
    /// Pin it for good: it is never evicted.
    #[arg(long)]
    hard_pin: bool,
    /// The group that it belongs to.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    group: String,
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl PutArgs {
    fn config(&self) -> ReplicateConfig<'static> {
        let soft_pin =
            self.soft_pin.map(|Milliseconds(ttl_ms)| SoftPin::Enable { ttl_ms: Some(ttl_ms) });
        ReplicateConfig {
            replica_num: self.replicas,
            soft_pin: soft_pin.unwrap_or_default(),
            hard_pin: self.hard_pin,
            ..ReplicateConfig::default()
        }
    }
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &PutArgs| put(args))
}

fn put(args: &PutArgs) -> Result<Outcome, CommandError> {
    let mut source = Source::open(&args.file)?;
    let pool = Pool::join(&args.pool)?;
    match copy(&pool, args, &mut source) {
        Ok(len) => {
            if args.json {
                print(&json!({"key": args.key, "len_bytes": len}))?;
            }
            Ok(Outcome::Done)
        }
        Err(MoveError::Pool(code)) => {
            if args.json {
                print(
                    &json!({"key": args.key, "error": code.name(), "error_code": code.number()}),
                )?;
            }
            Ok(complain_of(PROGRAM, &args.key, code))
        }
        Err(MoveError::Other(error)) => Err(error),
    }
}

fn print(line: &serde_json::Value) -> Result<(), CommandError> {
    let mut output = Output::new();
    output.line(format_args!("{line}"))?;
    output.flush()
}

fn copy(store: &Store, args: &PutArgs, source: &mut Source) -> Result<u64, MoveError> {
    let config = args.config();
    if let Some(len) = source.len.filter(|&len| len > PART_BYTES && !args.replace) {
        let item = PutItem { group: &args.group, ..PutItem::new(&args.key, len) };
        parts::write(store, item, &config, &mut source.reader)?;
        return Ok(len);
    }
    let bytes = Buffer::from_vec(source.read_all().map_err(MoveError::Other)?);
    let src = SliceList::from(bytes.raw());
    let items = [PutSource { group: &args.group, ..PutSource::new(&args.key, src) }];
    only(match args.replace {
        true => store.upsert(&items, &config),
        false => store.put(&items, &config),
    })?;
    Ok(bytes.len() as u64)
}

/// Where the bytes of an object come from.
struct Source {
    reader: Box<dyn Read>,
    name: String,
    /// The length of a file.
    len: Option<u64>,
}

impl Source {
    fn open(path: &Path) -> Result<Self, CommandError> {
        if path == Path::new("-") {
            let (reader, name) = (Box::new(io::stdin()), "standard input".to_owned());
            return Ok(Self { reader, name, len: None });
        }
        let name = path.display().to_string();
        let failed =
            |error: io::Error| CommandError::failed(format!("cannot read {name}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if found.is_dir() {
            return Err(CommandError::failed(format!(
                "{name} is a folder: put its files one by one"
            )));
        }
        let len = found.is_file().then_some(found.len());
        Ok(Self { reader: Box::new(file), name, len })
    }

    fn read_all(&mut self) -> Result<Vec<u8>, CommandError> {
        let Self { reader, name, len } = self;
        let most = len.map_or(MOST_PIPED_BYTES, |len| len.max(MOST_PIPED_BYTES));
        let mut bytes = Vec::new();
        let reserved = bytes.try_reserve_exact(len.unwrap_or(0) as usize);
        reserved.map_err(|_| CommandError::failed(format!("there is no memory for {name}")))?;
        let read = reader.by_ref().take(most + 1).read_to_end(&mut bytes);
        read.map_err(|error| CommandError::failed(format!("cannot read {name}: {error}")))?;
        match bytes.len() as u64 {
            0 => Err(CommandError::failed(format!(
                "{name} is empty, and an object has at least one byte"
            ))),
            len if len > most => {
                let reason =
                    "more than 16 GiB come through the pipe: put a file, which needs no memory";
                Err(CommandError::failed(reason))
            }
            _ => Ok(bytes),
        }
    }
}
