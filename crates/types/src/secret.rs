use std::fmt;
use std::ops::Deref;

/// A text that others must not see: a token. It shows itself as `***`, so that no log shows it with what holds it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// No secret.
    pub const NONE: Self = Self(String::new());

    /// The text itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        secret.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "***" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_as_a_text_and_not_shown() {
        let secret = Secret::from("hunter2");
        assert_eq!((&*secret, secret.as_str(), secret.len()), ("hunter2", "hunter2", 7));
        assert_eq!(format!("{secret:?} {:?}", Some(secret.clone())), "*** Some(***)");
        assert_eq!(format!("{:?}", Secret::default()), "\"\"");
        assert_eq!(String::from(secret), "hunter2");
    }
}
