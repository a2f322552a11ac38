//! The file behind `--config_path`: a JSON or YAML mapping whose keys are the names of flags.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use crate::gflags::FlagTable;

/// Most bytes that are read of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A configuration file that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigFileError {
    /// The file cannot be opened or read.
    #[error("config file {path}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The text is neither JSON nor YAML.
    #[error("config file {path} is neither JSON nor YAML: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and why the parser stopped.
        reason: String,
    },
    /// A key stands there twice.
    #[error("config file {path}: the key {key} stands there twice, the second time in line {line}")]
    Twice {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The line of the second one, from 1 on.
        line: u64,
    },
    /// The file's top level is not a mapping.
    #[error("config file {path} must hold a mapping of flag names to values, not {found}")]
    NotAMapping {
        /// The file.
        path: PathBuf,
        /// The type of its top level.
        found: &'static str,
    },
    /// A value is a list, a mapping or nothing.
    #[error(
        "config file {path}: the value of {key} must be a text, a number or true/false, not {found}"
    )]
    WrongType {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The type of the value.
        found: &'static str,
    },
    /// The flag does not accept the value.
    #[error("config file {path}: {reason}")]
    WrongValue {
        /// The file.
        path: PathBuf,
        /// The error of the flag's own check.
        reason: String,
    },
}

/// A key that is not the name of a flag. It changes nothing: files of other versions have such keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKey {
    /// The file.
    pub path: PathBuf,
    /// The key.
    pub key: String,
    /// The closest name of a flag.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, key) = (self.path.display(), &self.key);
        write!(f, "config file {path}: there is no setting {key}, and it changes nothing")?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest}?"),
            None => Ok(()),
        }
    }
}

/// Logs a warning for each of these keys.
pub fn warn_of(unknown_keys: &[UnknownKey]) {
    for unknown in unknown_keys {
        tracing::warn!("{unknown}");
    }
}

/// The content of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// Arguments of the form `--name=value`, sorted by name.
    pub arguments: Vec<String>,
    /// The keys that are not names of flags.
    pub unknown_keys: Vec<UnknownKey>,
}

/// Reads a file.
///
/// # Errors
/// See [`ConfigFileError`]. Every variant names the file.
pub fn read(path: &Path, flags: &FlagTable) -> Result<ConfigFile, ConfigFileError> {
    let unreadable = |reason: String| ConfigFileError::Unreadable { path: path.to_owned(), reason };
    let text = read_text(path).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("it has more than the {MAX_FILE_BYTES} bytes allowed")));
    }
    content(path, &text, flags)
}

/// Reads at most one byte more than is allowed, since devices and pipes have no known length.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn content(path: &Path, text: &str, flags: &FlagTable) -> Result<ConfigFile, ConfigFileError> {
    let mut out = ConfigFile::default();
    for (key, value) in mapping(path, text)? {
        let name = flag_name(&key);
        if flags.kind(&name).is_none() || name == "config_path" {
            let nearest = flags.nearest(&name).filter(|_| name != "config_path");
            let nearest = nearest.map(str::to_owned);
            out.unknown_keys.push(UnknownKey { path: path.to_owned(), key, nearest });
            continue;
        }
        let word = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            other => {
                let found = kind_of(other);
                return Err(ConfigFileError::WrongType { path: path.to_owned(), key, found });
            }
        };
        out.arguments.push(format!("--{name}={word}"));
    }
    Ok(out)
}

/// The flag that a key names: dashes become underscores, and `client_live_ttl_sec` is `client_ttl`.
fn flag_name(key: &str) -> String {
    match key.replace('-', "_").as_str() {
        "client_live_ttl_sec" => "client_ttl".to_owned(),
        name => name.to_owned(),
    }
}

fn mapping(path: &Path, text: &str) -> Result<BTreeMap<String, Value>, ConfigFileError> {
    let malformed = |reason: String| ConfigFileError::Malformed { path: path.to_owned(), reason };
    let value: Value = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?
    } else if text.trim().is_empty() {
        Value::Null
    } else {
        serde_saphyr::from_str(text).map_err(|error| match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key: Some(key), location } => {
                let (key, line) = (key.clone(), location.line());
                ConfigFileError::Twice { path: path.to_owned(), key, line }
            }
            _ => malformed(error.to_string()),
        })?
    };
    match value {
        Value::Object(map) => Ok(map.into_iter().collect()),
        other => {
            let found = kind_of(&other);
            Err(ConfigFileError::NotAMapping { path: path.to_owned(), found })
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction, Command};

    use super::*;

    fn flags() -> FlagTable {
        let names =
            ["rpc_port", "rpc_address", "client_ttl", "eviction_ratio", "enable_ha", "config_path"];
        let args = names.map(|name| Arg::new(name).long(name).action(ArgAction::Set));
        FlagTable::of(&Command::new("x").args(args))
    }

    fn parse(text: &str) -> Result<ConfigFile, ConfigFileError> {
        content(Path::new("m.yaml"), text, &flags())
    }

    #[test]
    fn json_and_yaml_become_arguments() {
        let expected = [
            "--client_ttl=10",
            "--enable_ha=false",
            "--eviction_ratio=0.1",
            "--rpc_address=0.0.0.0",
            "--rpc_port=50051",
        ];
        let arguments = expected.map(str::to_owned).to_vec();
        let expected = Ok(ConfigFile { arguments, unknown_keys: Vec::new() });
        let json = r#"{"rpc_port": 50051, "rpc_address": "0.0.0.0", "client_live_ttl_sec": 10,
                       "eviction_ratio": 0.1, "enable_ha": false}"#;
        let yaml = "# a comment\nrpc_port: 50051\nrpc-address: \"0.0.0.0\"\nclient_live_ttl_sec: 10\n\
                    eviction_ratio: 0.1\nenable_ha: false\n";
        assert_eq!(parse(json), expected);
        assert_eq!(parse(yaml), expected);
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        let path = || PathBuf::from("m.yaml");
        let wrong =
            |found| ConfigFileError::WrongType { path: path(), key: "rpc_port".to_owned(), found };
        let cases = [
            ("rpc_port: [1]", wrong("a list")),
            ("rpc_port: {a: 1}", wrong("a mapping")),
            ("rpc_port:", wrong("nothing")),
            ("- rpc_port", ConfigFileError::NotAMapping { path: path(), found: "a list" }),
            ("", ConfigFileError::NotAMapping { path: path(), found: "nothing" }),
            ("just words", ConfigFileError::NotAMapping { path: path(), found: "a text" }),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text), Err(expected), "{text}");
        }
        for text in ["{\"rpc_port\": 1", "rpc_port: \"1\n", "a: b: c"] {
            assert!(matches!(parse(text), Err(ConfigFileError::Malformed { .. })), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_no_flag_is_named_and_ends_nothing() {
        let text = r#"{"rpc_prt": 1, "rpc_port": 2, "zzz": {"a": [1]}, "config_path": "other"}"#;
        let said = parse(text).map(|file| {
            let unknown = file.unknown_keys.iter().map(UnknownKey::to_string);
            (file.arguments, unknown.collect::<Vec<_>>())
        });
        let (arguments, unknown) = said.expect("it is a mapping");
        assert_eq!(arguments, ["--rpc_port=2"]);
        let line =
            |key| format!("config file m.yaml: there is no setting {key}, and it changes nothing");
        let near = line("rpc_prt") + "; did you mean rpc_port?";
        assert_eq!(unknown, [line("config_path"), near, line("zzz")]);
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read(Path::new("/nowhere/m.json"), &flags()).expect_err("no such file");
        assert!(error.to_string().starts_with("config file /nowhere/m.json: "), "{error}");
    }

    #[test]
    fn a_file_without_an_end_is_not_read_to_its_end() {
        let path = PathBuf::from("/dev/zero");
        let reason = "it has more than the 1048576 bytes allowed".to_owned();
        let unreadable = ConfigFileError::Unreadable { path: path.clone(), reason };
        assert_eq!(read(&path, &flags()), Err(unreadable));
    }
}
