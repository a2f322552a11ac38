use std::path::Path;

use mooncake_client::read_token_file;

use crate::command_line::UsageError;

/// The token of `--auth_token`, or the one in the file of `--auth_token_file`; empty: none.
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
