//! Turns a command line into flags. Later sources override earlier ones: the defaults, the configuration file, the
//! environment, the command line.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use thiserror::Error;

use crate::config_file::{self, ConfigFile, ConfigFileError, UnknownKey};
use crate::gflags::{FlagError, FlagTable};

const SPELLINGS: &str = "\
Flags may be written -flag=v, --flag=v, --flag v, --flag and --noflag, with dashes or underscores in their names. \
Flags override the configuration file, which overrides the defaults. The flags of glog are accepted, without effect.";

/// Why a program did not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// Not an error: `--help` or `--version` asked for this text.
    #[error("{0}")]
    Requested(String),
    /// A flag that is unknown or lacks its value.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// The configuration file cannot be used.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// A flag does not accept its value, or two values contradict each other.
    #[error("{0}")]
    Value(String),
}

/// A variable of the environment that sets a flag. The flag on the command line overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The flag's name, with underscores.
    pub flag: &'static str,
    /// The variable's value, if it is set.
    pub value: Option<String>,
}

/// A command line with what it names.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The values of the flags.
    pub matches: ArgMatches,
    /// The keys of the configuration file that are not names of flags.
    pub unknown_keys: Vec<UnknownKey>,
}

/// Parses a command line, without the program's name. Of two values for one flag the later one counts. The command
/// line overrides the variables. These override the file of `--config_path`, and the file overrides the defaults.
///
/// # Errors
/// See [`UsageError`].
pub fn parse(
    command: Command,
    args: &[String],
    variables: &[Variable],
) -> Result<Parsed, UsageError> {
    let command = with_short_help(command).no_binary_name(true).args_override_self(true);
    let flags = FlagTable::of(&command);
    let given = flags.normalise(args)?;
    let ConfigFile { arguments: mut all, unknown_keys } = match config_path(&given) {
        Some(path) => from_file(&command, &path, &flags)?,
        None => ConfigFile::default(),
    };
    for Variable { flag, value } in variables {
        all.extend(value.iter().map(|value| format!("--{flag}={value}")));
    }
    all.extend(given);
    let matches = command.try_get_matches_from(all).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            UsageError::Requested(error.to_string())
        }
        _ => UsageError::Value(brief(&error)),
    })?;
    Ok(Parsed { matches, unknown_keys })
}

/// Prints one line per flag in the help, since there are many flags.
fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").long("help").short('h').action(ArgAction::HelpShort);
    let help = help.help("Show this text").help_heading(None);
    command.disable_help_flag(true).arg(help).after_help(SPELLINGS)
}

fn from_file(
    command: &Command,
    path: &Path,
    flags: &FlagTable,
) -> Result<ConfigFile, ConfigFileError> {
    let file = config_file::read(path, flags)?;
    match command.clone().try_get_matches_from(&file.arguments) {
        Ok(_) => Ok(file),
        Err(error) => {
            Err(ConfigFileError::WrongValue { path: path.to_owned(), reason: brief(&error) })
        }
    }
}

fn config_path(args: &[String]) -> Option<PathBuf> {
    let path = args.iter().rev().find_map(|arg| arg.strip_prefix("--config_path="));
    path.filter(|path| !path.is_empty()).map(in_home)
}

/// The path with the user's home folder in place of `~`. A shell does not expand that behind a `=`.
fn in_home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// The first paragraph of a parser's error. The rest repeats how to ask for help.
fn brief(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").trim().replace("\n  ", " ")
}
