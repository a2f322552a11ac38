//! The secret that members of a cluster share. It can come from a file, since others on the host can see flags and
//! variables.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mooncake_tls::{TlsConfig, TlsError};
use mooncake_types::limits;

/// Why a file gives no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token file {path} {reason}", path = path.display())]
pub struct TokenFileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Reads the token from a file: its text without blanks and line ends around it.
///
/// # Errors
/// The file cannot be read, others may write it, it is empty, or it is longer than a token may be.
pub fn read_token_file(path: &Path) -> Result<String, TokenFileError> {
    let error = |reason: String| TokenFileError { path: path.to_owned(), reason };
    let text = read(path).map_err(|reason| error(format!("cannot be read: {reason}")))?;
    let token = text.trim();
    match token.len() {
        0 => Err(error("is empty".to_owned())),
        len if len > limits::MAX_NAME_BYTES => {
            Err(error(format!("holds more than {} bytes", limits::MAX_NAME_BYTES)))
        }
        _ => Ok(token.to_owned()),
    }
}

/// An environment variable with a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment variable {name} is {value:?}, but must be {wanted}")]
pub struct EnvError {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub wanted: &'static str,
}

/// The token in `MOONCAKE_AUTH_TOKEN`, or in the file that `MOONCAKE_AUTH_TOKEN_FILE` names; empty if neither is set.
/// `text` gives the value of a variable.
///
/// # Errors
/// Both are set, or the file gives no token.
pub fn token_of_variables(
    text: impl Fn(&'static str) -> Option<String>,
) -> Result<String, EnvError> {
    let name = "MOONCAKE_AUTH_TOKEN_FILE";
    let token = text("MOONCAKE_AUTH_TOKEN");
    let Some(file) = text(name) else { return Ok(token.unwrap_or_default()) };
    let wanted = match (token, read_token_file(Path::new(&file))) {
        (None, Ok(token)) => return Ok(token),
        (None, Err(_)) => {
            "a file that can be read, that no other user may write, and that holds the token, of at most 512 bytes"
        }
        (Some(_), _) => "unset, or else MOONCAKE_AUTH_TOKEN: one of them gives the token",
    };
    Err(EnvError { name, value: file, wanted })
}

/// The certificates that the environment names. `text` gives the value of a variable.
///
/// # Errors
/// A switch is none.
pub fn tls_of_variables(
    text: impl Fn(&'static str) -> Option<String>,
) -> Result<TlsConfig, EnvError> {
    TlsConfig::from_variables(text).map_err(|error| match error {
        TlsError::Switch { name, value } => EnvError { name, value, wanted: "0 or 1" },
        other => unreachable!("variables are read, and files are not: {other}"),
    })
}

/// Reads a file only as far as needed to see that it is too long.
fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.mode() & 0o022 != 0 {
        return Err(io::Error::other("other users may write it; take that right from them"));
    }
    let mut text = String::new();
    file.take(2 * limits::MAX_NAME_BYTES as u64).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_what_a_file_holds_without_its_line_end() {
        let name = format!("mooncake-token-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let error = |reason: &str| TokenFileError { path: path.clone(), reason: reason.to_owned() };
        let too_long = "x".repeat(limits::MAX_NAME_BYTES + 1);
        for (text, expected) in [
            ("secret\n", Ok("secret".to_owned())),
            (" two words \r\n", Ok("two words".to_owned())),
            ("\n", Err(error("is empty"))),
            (&too_long, Err(error("holds more than 512 bytes"))),
        ] {
            std::fs::write(&path, text).expect("it can be written");
            assert_eq!(read_token_file(&path), expected, "{text:?}");
        }
        std::fs::write(&path, "secret").expect("it can be written");
        for mode in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our own file");
            let refused = read_token_file(&path).expect_err("others may write it").to_string();
            assert!(refused.contains("other users may write it"), "{mode:o}: {refused}");
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own file");
        assert_eq!(read_token_file(&path), Ok("secret".to_owned()), "others may read it");
        std::fs::remove_file(&path).expect("it is there");
        let missing = read_token_file(&path).expect_err("there is no such file").to_string();
        assert!(missing.contains("cannot be read: No such file"), "{missing}");
    }
}
