use std::path::Path;

use clap::Args;
use mooncake_client::read_token_file;

use crate::command_line::UsageError;

/// The flags of a command that talks to masters.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenFlags {
    /// The --auth_token of the masters, if they have one [default: MOONCAKE_AUTH_TOKEN].
    #[arg(long, value_name = "TOKEN", alias = "auth_token")]
    auth_token: Option<String>,
    /// A file that holds this token [default: MOONCAKE_AUTH_TOKEN_FILE].
    #[arg(long, value_name = "PATH", alias = "auth_token_file")]
    auth_token_file: Option<String>,
}

impl TokenFlags {
    /// The token. Flags override variables.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn token(&self) -> Result<String, UsageError> {
        let variable = |name| std::env::var(name).unwrap_or_default();
        match (&self.auth_token, &self.auth_token_file) {
            (None, None) => {
                read(&variable("MOONCAKE_AUTH_TOKEN"), &variable("MOONCAKE_AUTH_TOKEN_FILE"))
            }
            (token, file) => {
                read(token.as_deref().unwrap_or_default(), file.as_deref().unwrap_or_default())
            }
        }
    }
}

/// The token of `--auth_token`, or that in the file of `--auth_token_file`. Empty if neither is given.
///
/// # Errors
/// Both are given, or the file holds no token.
pub(crate) fn read(token: &str, file: &str) -> Result<String, UsageError> {
    match (token, file) {
        (token, "") => Ok(token.to_owned()),
        ("", file) => read_token_file(Path::new(file))
            .map_err(|error| UsageError::Value(format!("--auth_token_file: {error}"))),
        _ => Err(UsageError::Value(
            "--auth_token (MOONCAKE_AUTH_TOKEN) and --auth_token_file (MOONCAKE_AUTH_TOKEN_FILE) are both given; one \
             of them gives the token"
                .to_owned(),
        )),
    }
}
