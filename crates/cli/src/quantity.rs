//! Types of flag values beyond plain numbers: truth values and durations.

use std::str::FromStr;

/// Parses a truth value: `true`, `1`, `yes`, `t` or `y`; `false`, `0`, `no`, `f` or `n`; in any case.
#[must_use]
pub(crate) fn truth(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

/// A flag that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl FromStr for Switch {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        truth(word).map(Switch).ok_or_else(|| "expected true, false, 1, 0, yes or no".to_owned())
    }
}

/// A duration: a plain number of milliseconds, or a number with one of the units `ms`, `s`, `m`, `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milliseconds(pub u64);

impl FromStr for Milliseconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = number_and_unit(text);
        let scale = match unit.as_str() {
            "" | "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            _ => return Err("expected milliseconds like 500, or a duration like 5s".to_owned()),
        };
        scaled(number, scale)
            .map(Milliseconds)
            .ok_or_else(|| "expected milliseconds like 500, or a duration like 5s".to_owned())
    }
}

fn number_and_unit(text: &str) -> (&str, String) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim().to_ascii_lowercase())
}

/// `number` times `scale`. The result is exact if the number is whole.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    if !number.contains('.') || number.len() > 20 {
        return None;
    }
    let product = number.parse::<f64>().ok()? * scale as f64;
    (product < 2f64.powi(63)).then_some(product as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values() {
        for word in ["true", "TRUE", "1", "yes", "Yes", "t", "y"] {
            assert_eq!(word.parse(), Ok(Switch(true)), "{word}");
        }
        for word in ["false", "False", "0", "no", "f", "n"] {
            assert_eq!(word.parse(), Ok(Switch(false)), "{word}");
        }
        for word in ["", "2", "maybe", "on"] {
            assert!(word.parse::<Switch>().is_err(), "{word}");
        }
    }

    #[test]
    fn durations() {
        let cases = [
            ("500", Some(500)),
            ("0", Some(0)),
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("5 s", Some(5_000)),
            ("1.5s", Some(1_500)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("1H", Some(3_600_000)),
            ("", None),
            ("s", None),
            ("-5", None),
            ("5d", None),
            ("1..5s", None),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551615s", None),
            ("18446744073709551616", None),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Milliseconds>().ok(), expected.map(Milliseconds), "{text}");
        }
    }
}
