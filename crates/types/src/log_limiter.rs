use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After the first line about a cause, the limiter suppresses further lines about it for this long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// While the cause lasts, the pauses double up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Most causes that are distinguished at a time. Beyond this, a new cause replaces the cause that was logged longest
/// ago.
const MAX_CAUSES: usize = 64;

/// Limits the lines that one place in the code logs: one line per cause and pause, not one per call. The limiter
/// counts suppressed lines, and the next line about the cause gives their number.
#[derive(Debug)]
pub struct LogLimiter<C>(Mutex<Vec<LoggedCause<C>>>);

#[derive(Debug)]
struct LoggedCause<C> {
    cause: C,
    at: Instant,
    /// No other line about the cause is admitted until this long after `at`.
    pause: Duration,
    kept_back: u64,
}

impl<C: PartialEq> Default for LogLimiter<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: PartialEq> LogLimiter<C> {
    /// A limiter that has admitted no line yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Whether to log a line about a cause at `now`. If so, returns how many lines were suppressed since the last one
    /// about it.
    pub fn admit(&self, cause: C, now: Instant) -> Option<u64> {
        let mut causes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(said) = causes.iter_mut().find(|said| said.cause == cause) else {
            if causes.len() >= MAX_CAUSES {
                let oldest = (0..causes.len()).min_by_key(|&place| causes[place].at);
                oldest.map(|place| causes.swap_remove(place));
            }
            causes.push(LoggedCause { cause, at: now, pause: FIRST_PAUSE, kept_back: 0 });
            return Some(0);
        };
        if now.saturating_duration_since(said.at) < said.pause {
            said.kept_back += 1;
            return None;
        }
        let lasts = said.kept_back > 0;
        said.pause = if lasts { (said.pause * 2).min(LONGEST_PAUSE) } else { FIRST_PAUSE };
        said.at = now;
        Some(std::mem::take(&mut said.kept_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods, reason = "there is no other way to a moment")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_cause_that_lasts_is_said_ever_more_rarely_and_each_line_counts_those_before() {
        let (limiter, start) = (LogLimiter::new(), start());
        let said = [0, 1, 999, 1000, 1001, 2999, 3000, 7001, 8000, 8500, 9000]
            .map(|ms| limiter.admit((), start + Duration::from_millis(ms)));
        let expected =
            [Some(0), None, None, Some(2), None, None, Some(2), Some(0), None, Some(1), None];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_million_failures_in_a_minute_are_six_lines() {
        let (limiter, start) = (LogLimiter::new(), start());
        let at = |failure: u64| start + Duration::from_micros(60 * failure);
        let lines = (0..1_000_000).filter_map(|failure| limiter.admit("gone", at(failure)));
        let kept_back: Vec<u64> = lines.collect();
        assert_eq!(kept_back.len(), 6, "{kept_back:?}");
    }

    #[test]
    fn causes_are_told_apart_and_bounded() {
        let (limiter, now) = (LogLimiter::new(), start());
        for cause in 0..2 * MAX_CAUSES {
            let later = now + Duration::from_millis(cause as u64);
            assert_eq!(limiter.admit(cause, later), Some(0), "{cause}");
            assert_eq!(limiter.admit(cause, later), None, "{cause}");
        }
        assert_eq!(limiter.0.lock().unwrap().len(), MAX_CAUSES);
    }
}
