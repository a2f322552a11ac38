use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the same kind of thing is said.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one of many messages of a kind through each second: a node that is gone fails thousands of ranges.
#[derive(Debug, Default)]
pub(crate) struct Sparing(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    /// How many were kept back since.
    kept_back: u64,
}

impl Sparing {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Said { last: None, kept_back: 0 }))
    }

    /// Whether to say it at this moment: if so, how many were kept back since the last one.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if said.last.is_some_and(|last| now.saturating_duration_since(last) < INTERVAL) {
            said.kept_back += 1;
            return None;
        }
        said.last = Some(now);
        Some(std::mem::take(&mut said.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_second_is_said_and_tells_of_the_others() {
        let sparing = Sparing::new();
        let start = Instant::now();
        let said = [0, 1, 999, 1000, 1001, 5000, 7000]
            .map(|ms| sparing.admit(start + Duration::from_millis(ms)));
        assert_eq!(said, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
