//! From the words of a command line to a struct of flags: spellings, then the configuration file and the
//! environment, then the flags themselves, each overriding what came before.

use std::path::Path;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use thiserror::Error;

use crate::config_file::{self, ConfigFileError};
use crate::gflags::{FlagError, FlagTable};

const SPELLINGS: &str = "\
Flags may be written -flag=v, --flag=v, --flag v, --flag and --noflag, with dashes or underscores in their names. \
Flags override the configuration file, which overrides the defaults. The flags of glog are accepted, without effect.";

/// Why a program does not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UsageError {
    /// Not an error: the text that `--help` or `--version` asked for.
    #[error("{0}")]
    Requested(String),
    /// A flag that is unknown or lacks its value.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// The configuration file.
    #[error(transparent)]
    File(#[from] ConfigFileError),
    /// A value that its flag does not accept, or one that fits no other.
    #[error("{0}")]
    Value(String),
}

/// A variable that stands for a flag; the flag itself wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The flag, with underscores.
    pub flag: &'static str,
    /// The variable's value, if it is set.
    pub value: Option<String>,
}

/// Reads a command line, without the program's name. Of two values for one flag the later wins; the command line
/// wins over the variables, these over the file named by `--config_path`, that over the defaults.
///
/// # Errors
/// See [`UsageError`].
pub fn parse(
    command: Command,
    args: &[String],
    variables: &[Variable],
) -> Result<ArgMatches, UsageError> {
    let command = with_short_help(command).no_binary_name(true).args_override_self(true);
    let flags = FlagTable::of(&command);
    let given = flags.normalise(args)?;
    let mut all = match config_path(&given) {
        Some(path) => from_file(&command, Path::new(path), &flags)?,
        None => Vec::new(),
    };
    for Variable { flag, value } in variables {
        all.extend(value.iter().map(|value| format!("--{flag}={value}")));
    }
    all.extend(given);
    command.try_get_matches_from(all).map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            UsageError::Requested(error.to_string())
        }
        _ => UsageError::Value(brief(&error)),
    })
}

/// One line per flag: there are too many for more.
fn with_short_help(command: Command) -> Command {
    let help = Arg::new("help").long("help").short('h').action(ArgAction::HelpShort);
    let help = help.help("Show this text").help_heading(None);
    command.disable_help_flag(true).arg(help).after_help(SPELLINGS)
}

fn from_file(
    command: &Command,
    path: &Path,
    flags: &FlagTable,
) -> Result<Vec<String>, ConfigFileError> {
    let args = config_file::read(path, flags)?;
    match command.clone().try_get_matches_from(&args) {
        Ok(_) => Ok(args),
        Err(error) => {
            Err(ConfigFileError::WrongValue { path: path.to_owned(), reason: brief(&error) })
        }
    }
}

fn config_path(args: &[String]) -> Option<&str> {
    args.iter()
        .rev()
        .find_map(|arg| arg.strip_prefix("--config_path="))
        .filter(|path| !path.is_empty())
}

/// The first sentence of a parser's error: the rest repeats how to ask for help.
fn brief(error: &clap::Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").trim().replace("\n  ", " ")
}
