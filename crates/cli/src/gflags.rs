//! Turns the spellings of gflags into the form that clap parses: `--name=value`.

use std::collections::BTreeMap;

use clap::{ArgAction, Command};
use mooncake_client::nearest;
use thiserror::Error;

/// Which value a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    /// None: the flag alone is a request, like `--help`.
    Action,
    /// A truth value, which may be left out: `--flag`, `--noflag`, `--flag=false`.
    Switch,
    /// A value.
    Value,
}

/// A command line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FlagError {
    /// There is no such flag.
    #[error("unknown flag --{name}{}", did_you_mean(.nearest.as_deref()))]
    Unknown {
        /// The name as it was written, without dashes.
        name: String,
        /// The closest name of a flag.
        nearest: Option<String>,
    },
    /// The flag is the last argument, and its value is missing.
    #[error("flag --{name} needs a value")]
    MissingValue {
        /// The flag.
        name: String,
    },
    /// The flag takes no value.
    #[error("flag --{name} takes no value")]
    UnwantedValue {
        /// The flag.
        name: String,
    },
    /// An argument is not a flag.
    #[error("unexpected argument '{argument}'")]
    Unexpected {
        /// The argument as it was written.
        argument: String,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean --{name}?")).unwrap_or_default()
}

/// All flags of a command, each with the kind of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagTable {
    flags: BTreeMap<String, FlagKind>,
}

impl FlagTable {
    /// The flags of `command`. An option that may stand without a value counts as a switch.
    #[must_use]
    pub fn of(command: &Command) -> FlagTable {
        let mut flags = BTreeMap::new();
        for arg in command.get_arguments() {
            let kind = match (arg.get_action(), arg.get_num_args()) {
                (ArgAction::Set, Some(count)) if count.min_values() == 0 => FlagKind::Switch,
                (ArgAction::Set | ArgAction::Append, _) => FlagKind::Value,
                _ => FlagKind::Action,
            };
            for name in arg.get_long_and_visible_aliases().unwrap_or_default() {
                flags.insert(name.to_owned(), kind);
            }
        }
        flags.insert("help".to_owned(), FlagKind::Action);
        flags.insert("version".to_owned(), FlagKind::Action);
        FlagTable { flags }
    }

    /// The kind of a flag, if it exists. `name` has underscores.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<FlagKind> {
        self.flags.get(name).copied()
    }

    /// The closest name to `name` among the flags.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&str> {
        nearest(name, self.flags.keys().map(String::as_str))
    }

    /// Turns arguments, without the program's name, into the form `--name=value` with underscores. If a flag occurs
    /// twice, both remain, and the parser takes the later one.
    ///
    /// # Errors
    /// The first argument that is not a known flag or lacks its value.
    pub fn normalise(&self, args: &[String]) -> Result<Vec<String>, FlagError> {
        let mut out = Vec::with_capacity(args.len());
        let mut rest = args.iter().map(String::as_str).peekable();
        while let Some(argument) = rest.next() {
            let (written, value) = split(argument)?;
            let Some((name, kind)) = self.resolve(written, value.is_some()) else {
                let nearest = self.nearest(&underscored(written)).map(str::to_owned);
                return Err(FlagError::Unknown { name: written.to_owned(), nearest });
            };
            match (kind, value) {
                (Resolved::Action, None) => out.push(format!("--{name}")),
                (Resolved::Action, Some(_)) => return Err(FlagError::UnwantedValue { name }),
                (Resolved::Denied, _) => out.push(format!("--{name}=false")),
                (Resolved::Switch | Resolved::Value, Some(value)) => {
                    out.push(format!("--{name}={value}"));
                }
                (Resolved::Switch, None) => {
                    let value = rest.next_if(|next| is_truth_value(next)).unwrap_or("true");
                    out.push(format!("--{name}={value}"));
                }
                (Resolved::Value, None) => match rest.next() {
                    Some(value) => out.push(format!("--{name}={value}")),
                    None => return Err(FlagError::MissingValue { name }),
                },
            }
        }
        Ok(out)
    }

    fn resolve(&self, written: &str, has_value: bool) -> Option<(String, Resolved)> {
        let name = match written {
            "h" | "helpfull" | "helpshort" => "help".to_owned(),
            "V" => "version".to_owned(),
            _ => underscored(written),
        };
        if let Some(kind) = self.kind(&name) {
            let resolved = match kind {
                FlagKind::Action => Resolved::Action,
                FlagKind::Switch => Resolved::Switch,
                FlagKind::Value => Resolved::Value,
            };
            return Some((name, resolved));
        }
        let positive = name.strip_prefix("no")?.trim_start_matches('_');
        let denies = !has_value && self.kind(positive) == Some(FlagKind::Switch);
        denies.then(|| (positive.to_owned(), Resolved::Denied))
    }
}

enum Resolved {
    Action,
    Switch,
    Denied,
    Value,
}

fn split(argument: &str) -> Result<(&str, Option<&str>), FlagError> {
    let unexpected = || FlagError::Unexpected { argument: argument.to_owned() };
    let body = argument.strip_prefix('-').ok_or_else(unexpected)?;
    let body = body.strip_prefix('-').unwrap_or(body);
    let (name, value) = match body.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (body, None),
    };
    if name.is_empty() || name.starts_with('-') {
        return Err(unexpected());
    }
    Ok((name, value))
}

fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

/// Whether a word is a truth value, in any case.
fn is_truth_value(word: &str) -> bool {
    crate::quantity::truth(word).is_some()
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn table() -> FlagTable {
        let switch = |name| Arg::new(name).long(name).num_args(0..=1).action(ArgAction::Set);
        let value = |name| Arg::new(name).long(name).action(ArgAction::Set);
        FlagTable::of(&Command::new("x").args([
            switch("enable_ha"),
            switch("notify"),
            value("rpc_port"),
            value("v"),
        ]))
    }

    #[test]
    fn every_spelling_becomes_one_form() {
        let cases: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&["-rpc_port=1"], &["--rpc_port=1"]),
            (&["--rpc_port=1"], &["--rpc_port=1"]),
            (&["--rpc_port", "1"], &["--rpc_port=1"]),
            (&["-rpc-port", "1"], &["--rpc_port=1"]),
            (&["--rpc-port=1"], &["--rpc_port=1"]),
            (&["--rpc_port", "-1"], &["--rpc_port=-1"]),
            (&["--rpc_port="], &["--rpc_port="]),
            (&["--rpc_port=a=b"], &["--rpc_port=a=b"]),
            (&["--rpc_port=1", "--rpc_port=2"], &["--rpc_port=1", "--rpc_port=2"]),
            (&["--enable_ha"], &["--enable_ha=true"]),
            (&["-enable-ha"], &["--enable_ha=true"]),
            (&["--enable_ha", "false"], &["--enable_ha=false"]),
            (&["--enable_ha", "0", "--v=1"], &["--enable_ha=0", "--v=1"]),
            (&["--enable_ha", "--v", "2"], &["--enable_ha=true", "--v=2"]),
            (&["--enable_ha=No"], &["--enable_ha=No"]),
            (&["--noenable_ha"], &["--enable_ha=false"]),
            (&["-noenable-ha"], &["--enable_ha=false"]),
            (&["--no-enable-ha"], &["--enable_ha=false"]),
            (&["--notify"], &["--notify=true"]),
            (&["--nonotify"], &["--notify=false"]),
            (&["-v=1"], &["--v=1"]),
            (&["-h"], &["--help"]),
            (&["-help"], &["--help"]),
            (&["--helpfull"], &["--help"]),
            (&["--version"], &["--version"]),
            (&["-V"], &["--version"]),
        ];
        for (args, expected) in cases {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(table().normalise(&args), Ok(expected), "{args:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let unknown = |name: &str, nearest: Option<&str>| FlagError::Unknown {
            name: name.to_owned(),
            nearest: nearest.map(str::to_owned),
        };
        let unexpected = |argument: &str| FlagError::Unexpected { argument: argument.to_owned() };
        let cases: &[(&[&str], FlagError)] = &[
            (&["--rpc_prt=1"], unknown("rpc_prt", Some("rpc_port"))),
            (&["--rpc-prt", "1"], unknown("rpc-prt", Some("rpc_port"))),
            (&["--xyzzy"], unknown("xyzzy", None)),
            (&["--norpc_port"], unknown("norpc_port", Some("rpc_port"))),
            (&["--noenable_ha=true"], unknown("noenable_ha", Some("enable_ha"))),
            (&["--rpc_port"], FlagError::MissingValue { name: "rpc_port".to_owned() }),
            (&["--help=1"], FlagError::UnwantedValue { name: "help".to_owned() }),
            (&["start"], unexpected("start")),
            (&["--"], unexpected("--")),
            (&["-"], unexpected("-")),
            (&["---v=1"], unexpected("---v=1")),
            (&["--=1"], unexpected("--=1")),
            (&["--enable_ha", "maybe"], unexpected("maybe")),
        ];
        for (args, expected) in cases {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert_eq!(table().normalise(&args).as_ref(), Err(expected), "{args:?}");
        }
        assert_eq!(
            unknown("rpc_prt", Some("rpc_port")).to_string(),
            "unknown flag --rpc_prt; did you mean --rpc_port?"
        );
    }
}
