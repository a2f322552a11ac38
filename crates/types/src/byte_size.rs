use std::fmt;
use std::str::FromStr;

/// A size as people write it: a number of bytes, or a number with a unit. The units are `b`, `k`, `kb`, `kib` and so
/// on up to `t`, in any case, with or without a blank before. Units are powers of 1024. `Display` writes it as flags
/// and the C++ store do: `4 GB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// Why a text is not a [`ByteSize`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteSizeError {
    /// It is a percentage, like `50%`.
    Percentage,
    /// It is not a number with a known unit, or the number is too large.
    Malformed,
}

impl FromStr for ByteSize {
    type Err = ByteSizeError;

    fn from_str(text: &str) -> Result<Self, ByteSizeError> {
        let text = text.trim();
        if text.ends_with('%') {
            return Err(ByteSizeError::Percentage);
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(ByteSizeError::Malformed),
        };
        scaled(number, 1 << shift).map(ByteSize).ok_or(ByteSizeError::Malformed)
    }
}

/// `number` times `scale`; exact if `number` is whole. `None` if the product is too large.
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

impl fmt::Display for ByteSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ByteSizeError::Percentage => "a percentage is not supported; give bytes like 4GB",
            ByteSizeError::Malformed => "expected bytes like 1048576, or a size like 4GB",
        })
    }
}

impl std::error::Error for ByteSizeError {}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")];
        match UNITS.iter().find(|(shift, _)| self.0 >= 1 << shift) {
            Some((shift, unit)) if self.0.is_multiple_of(1 << shift) => {
                write!(f, "{} {unit}", self.0 >> shift)
            }
            Some((shift, unit)) => {
                write!(f, "{:.2} {unit}", self.0 as f64 / (1u64 << shift) as f64)
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("0", Ok(0)),
            ("1048576", Ok(1 << 20)),
            ("16b", Ok(16)),
            ("4 GB", Ok(4 << 30)),
            (" 512MB ", Ok(512 << 20)),
            ("1g", Ok(1 << 30)),
            ("1.5 gib", Ok(3 << 29)),
            ("2tb", Ok(2 << 40)),
            ("64k", Ok(64 << 10)),
            ("50%", Err(ByteSizeError::Percentage)),
            ("GB", Err(ByteSizeError::Malformed)),
            ("", Err(ByteSizeError::Malformed)),
            ("-1", Err(ByteSizeError::Malformed)),
            ("4 XB", Err(ByteSizeError::Malformed)),
            ("1..5k", Err(ByteSizeError::Malformed)),
            ("99999999999999999999", Err(ByteSizeError::Malformed)),
            ("18446744073709551615k", Err(ByteSizeError::Malformed)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse(), expected.map(ByteSize), "{text}");
        }
    }

    #[test]
    fn a_size_is_shown_in_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 20, "1 MB"),
            (3 << 29, "1.50 GB"),
            (4 << 30, "4 GB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(ByteSize(bytes).to_string(), expected);
        }
    }
}
