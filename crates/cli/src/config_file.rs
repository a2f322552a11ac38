//! The file behind `--config_path`: a JSON or YAML mapping whose keys are the names of flags.

use std::collections::BTreeMap;
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
    /// The file's top level is not a mapping.
    #[error("config file {path} must hold a mapping of flag names to values, not {found}")]
    NotAMapping {
        /// The file.
        path: PathBuf,
        /// The type of its top level.
        found: &'static str,
    },
    /// A key is not the name of a flag.
    #[error("config file {path}: unknown key {key}{}", did_you_mean(.nearest.as_deref()))]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The closest name of a flag.
        nearest: Option<String>,
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

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// Reads a file into arguments of the form `--name=value`, sorted by name.
///
/// # Errors
/// See [`ConfigFileError`]. Every variant names the file.
pub fn read(path: &Path, flags: &FlagTable) -> Result<Vec<String>, ConfigFileError> {
    let unreadable = |reason: String| ConfigFileError::Unreadable { path: path.to_owned(), reason };
    let text = read_text(path).map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(format!("it has more than the {MAX_FILE_BYTES} bytes allowed")));
    }
    arguments(path, &text, flags)
}

/// Reads at most one byte more than is allowed, since devices and pipes have no known length.
fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn arguments(path: &Path, text: &str, flags: &FlagTable) -> Result<Vec<String>, ConfigFileError> {
    let mut out = Vec::new();
    for (key, value) in mapping(path, text)? {
        let name = flag_name(&key);
        if flags.kind(&name).is_none() || name == "config_path" {
            let nearest = flags.nearest(&name).map(str::to_owned);
            return Err(ConfigFileError::UnknownKey { path: path.to_owned(), key, nearest });
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
        out.push(format!("--{name}={word}"));
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
        serde_saphyr::from_str(text).map_err(|error| malformed(error.to_string()))?
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

    fn parse(text: &str) -> Result<Vec<String>, ConfigFileError> {
        arguments(Path::new("m.yaml"), text, &flags())
    }

    #[test]
    fn json_and_yaml_become_arguments() {
        let expected = Ok(vec![
            "--client_ttl=10".to_owned(),
            "--enable_ha=false".to_owned(),
            "--eviction_ratio=0.1".to_owned(),
            "--rpc_address=0.0.0.0".to_owned(),
            "--rpc_port=50051".to_owned(),
        ]);
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
        let unknown = |key: &str, nearest: Option<&str>| ConfigFileError::UnknownKey {
            path: path(),
            key: key.to_owned(),
            nearest: nearest.map(str::to_owned),
        };
        let wrong =
            |found| ConfigFileError::WrongType { path: path(), key: "rpc_port".to_owned(), found };
        let cases = [
            ("rpc_prt: 1", unknown("rpc_prt", Some("rpc_port"))),
            (r#"{"zzz": 1}"#, unknown("zzz", None)),
            ("config_path: other.yaml", unknown("config_path", Some("config_path"))),
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
        assert_eq!(
            unknown("rpc_prt", Some("rpc_port")).to_string(),
            "config file m.yaml: unknown key rpc_prt; did you mean rpc_port?"
        );
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
