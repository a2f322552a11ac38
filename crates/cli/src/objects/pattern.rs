//! Which keys a command is about: those that begin with a text, or those that an expression finds.

use mooncake_types::limits::MAX_REGEX_BYTES;

use super::outcome::CommandError;

/// The regular expression for keys that begin with `prefix`, or that `regex` finds. Without either, for all keys.
///
/// # Errors
/// The expression is wrong, or too long for a request.
pub(super) fn of(prefix: Option<&str>, regex: Option<&str>) -> Result<String, CommandError> {
    let pattern = match (prefix, regex) {
        (_, Some(regex)) => regex.to_owned(),
        (Some(prefix), None) => format!("^{}", regex::escape(prefix)),
        (None, None) => String::new(),
    };
    if pattern.len() > MAX_REGEX_BYTES {
        let reason = format!("a prefix or expression has at most {MAX_REGEX_BYTES} bytes");
        return Err(CommandError::Usage { reason });
    }
    match regex::Regex::new(&pattern) {
        Ok(_) => Ok(pattern),
        Err(error) => Err(CommandError::Usage { reason: format!("--regex: {error}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_stands_for_itself() {
        assert_eq!(of(Some("a.b["), None).unwrap(), r"^a\.b\[");
        assert_eq!(of(None, Some("a.b$")).unwrap(), "a.b$");
        assert_eq!(of(None, None).unwrap(), "");
        let wrong = of(None, Some("a(")).unwrap_err().to_string();
        assert!(wrong.starts_with("--regex: ") && wrong.contains("unclosed group"), "{wrong}");
        assert!(of(Some(&"x".repeat(MAX_REGEX_BYTES)), None).is_err());
    }
}
