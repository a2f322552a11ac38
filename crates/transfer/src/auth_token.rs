//! The word that members of a cluster know, from a file: flags and variables can be seen by others of the host.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

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

/// The token in a file: its text without the blanks and line ends around it.
///
/// # Errors
/// The file cannot be read, holds nothing, or more than a token may have.
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

/// The token of `MOONCAKE_AUTH_TOKEN`, or that in the file of `MOONCAKE_AUTH_TOKEN_FILE`, as these variables are set; empty
/// if neither is.
///
/// # Errors
/// What the second would have to be.
pub fn token_of_variables(
    token: Option<String>,
    file: Option<&str>,
) -> Result<String, &'static str> {
    match (token, file) {
        (token, None) => Ok(token.unwrap_or_default()),
        (Some(_), Some(_)) => {
            Err("unset, or else MOONCAKE_AUTH_TOKEN: one of them gives the token")
        }
        (None, Some(file)) => read_token_file(Path::new(file))
            .map_err(|_| "a file that can be read and holds the token, of at most 512 bytes"),
    }
}

/// Reads no more than shows that a file is too long.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(2 * limits::MAX_NAME_BYTES as u64).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
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
        std::fs::remove_file(&path).expect("it is there");
        let missing = read_token_file(&path).expect_err("there is no such file").to_string();
        assert!(missing.contains("cannot be read: No such file"), "{missing}");
    }
}
