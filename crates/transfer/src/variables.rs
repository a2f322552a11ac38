use crate::EnvError;

/// Variables of the environment, which `look_up` gives by name. An empty one counts as unset.
pub struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    /// Reads variables through this function.
    pub const fn new(look_up: F) -> Self {
        Self(look_up)
    }

    /// The value of a variable.
    pub fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    /// Parses the value of a variable with `read`; `None` if it is unset.
    ///
    /// # Errors
    /// If `read` rejects the value; the error names `wanted` as what it accepts.
    pub fn parse<T>(
        &self,
        name: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, EnvError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        match read(&value) {
            Some(found) => Ok(Some(found)),
            None => Err(EnvError { name, value, wanted }),
        }
    }

    /// A whole number above zero.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn number(&self, name: &'static str) -> Result<Option<u32>, EnvError> {
        let read = |value: &str| value.parse().ok().filter(|&number| number > 0);
        self.parse(name, "a whole number above zero", read)
    }

    /// A port.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn port(&self, name: &'static str) -> Result<Option<u16>, EnvError> {
        let read = |value: &str| value.parse().ok().filter(|&port| port > 0);
        self.parse(name, "a port from 1 to 65535", read)
    }

    /// Whether something is switched on.
    ///
    /// # Errors
    /// If it is neither on nor off.
    pub fn switch(&self, name: &'static str) -> Result<Option<bool>, EnvError> {
        self.parse(name, "0 or 1", |value| match value.to_ascii_lowercase().as_str() {
            "1" | "true" | "on" | "yes" => Some(true),
            "0" | "false" | "off" | "no" => Some(false),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_unset_read_or_refused_with_what_it_may_hold() {
        let with = |value: &'static str| Variables::new(move |_: &str| Some(value.to_owned()));
        assert_eq!(Variables::new(|_: &str| None).number("N"), Ok(None));
        assert_eq!(with("").port("P"), Ok(None));
        assert_eq!(
            (with("7").number("N"), with("65535").port("P")),
            (Ok(Some(7)), Ok(Some(65_535)))
        );
        assert_eq!(
            (with("Yes").switch("S"), with("0").switch("S")),
            (Ok(Some(true)), Ok(Some(false)))
        );
        for value in ["0", "-1", "70000"] {
            let wanted = "a port from 1 to 65535";
            let refused = EnvError { name: "P", value: value.to_owned(), wanted };
            assert_eq!(with(value).port("P"), Err(refused));
        }
        assert!(with("0").number("N").is_err() && with("2").switch("S").is_err());
    }
}
