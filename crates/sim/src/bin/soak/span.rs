use std::fmt;
use std::str::FromStr;

/// Runs still to do, ordered by seed and then by kind. For the first seed, only the kinds from `kind` on are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) seed: u64,
    /// The index of the next kind.
    pub(crate) kind: usize,
    /// One past the last seed.
    pub(crate) end: u64,
}

impl Span {
    pub(crate) fn is_over(&self) -> bool {
        self.seed >= self.end
    }

    /// The next run is done. Each seed has `kinds` runs.
    pub(crate) fn advance(&mut self, kinds: usize) {
        self.kind += 1;
        if self.kind >= kinds {
            (self.seed, self.kind) = (self.seed + 1, 0);
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}..{}", self.seed, self.kind, self.end)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (begin, end) = text.split_once("..")?;
            let (seed, kind) = begin.split_once('.')?;
            Some(Self {
                seed: seed.parse().ok()?,
                kind: kind.parse().ok()?,
                end: end.parse().ok()?,
            })
        };
        read().ok_or_else(|| "it is written SEED.KIND..END".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_read_as_it_is_written_and_goes_over_kinds_and_then_seeds() {
        let mut span = Span { seed: 7, kind: 1, end: 9 };
        assert_eq!(span.to_string().parse(), Ok(span));
        let mut met = Vec::new();
        while !span.is_over() {
            met.push((span.seed, span.kind));
            span.advance(2);
        }
        assert_eq!(met, [(7, 1), (8, 0), (8, 1)]);
        for text in ["", "7..9", "7.1", "7.1..", "a.1..9", "7.-1..9"] {
            let refused = text.parse::<Span>();
            assert_eq!(refused, Err("it is written SEED.KIND..END".to_owned()), "{text:?}");
        }
    }
}
