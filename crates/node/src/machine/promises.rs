use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Version, limits};

/// How long a promise holds.
pub const PROMISE: Duration = Duration::from_millis(limits::PROMISE_MS);

/// After a drop was refused, the entry gets no new promise for this long. Otherwise readers could keep it for ever.
const WANTED: Duration = Duration::from_secs(1);

/// Most promises of one segment at a time.
const MOST: usize = 1 << 16;

/// Promises about entries of one segment. While a promise holds, readers use their copies of the entry without asking.
/// Until it ends, the node confirms no drop of the entry and admits no writer to its range.
///
/// Promises are kept apart from the ledger: an entry leaves that as soon as a writer takes its range, even if it is
/// promised.
#[derive(Debug, Default)]
pub(super) struct Promises {
    /// By the offset of the entry. Promises that hold do not overlap, since no entry becomes complete in a promised
    /// range.
    made: BTreeMap<u64, Promise>,
    is_closed: bool,
}

#[derive(Debug)]
struct Promise {
    end: u64,
    version: Version,
    until: Instant,
    /// When a drop of the entry was last requested.
    wanted_at: Option<Instant>,
}

impl Promises {
    /// Promises the entry in this range.
    pub(super) fn make(
        &mut self,
        entry: &Range<u64>,
        version: Version,
        now: Instant,
    ) -> Result<(), ErrorCode> {
        if self.made.len() >= MOST {
            self.made.retain(|_, promise| promise.until > now || promise.is_wanted(now));
        }
        let known = self.made.get(&entry.start).filter(|promise| promise.version == version);
        let is_wanted = known.is_some_and(|promise| promise.is_wanted(now));
        if self.is_closed || is_wanted || self.made.len() >= MOST {
            return Err(ErrorCode::NoAvailableHandle);
        }
        let over: Vec<u64> = self.made.range(entry.clone()).map(|(&start, _)| start).collect();
        for start in over {
            self.made.remove(&start);
        }
        let until = now + PROMISE;
        let promise = Promise { end: entry.end, version, until, wanted_at: None };
        self.made.insert(entry.start, promise);
        Ok(())
    }

    /// Notes that a drop of this version was requested. Returns how long its promise still holds; `None` if there is
    /// none.
    pub(super) fn end(&mut self, offset: u64, version: Version, now: Instant) -> Option<Duration> {
        if is_broken(Rule::PromisesAreKept) {
            return None;
        }
        let promise = self.made.get_mut(&offset).filter(|promise| promise.version == version)?;
        promise.wanted_at = Some(now);
        promise.left(now).or_else(|| {
            self.made.remove(&offset);
            None
        })
    }

    /// How long the promises that overlap a range still hold; `None` if there are none.
    pub(super) fn patience(&self, range: &Range<u64>, now: Instant) -> Option<Duration> {
        // The usual case: most nodes have no readers with copies.
        if self.made.is_empty() {
            return None;
        }
        let before = self.made.range(..range.end).rev();
        let overlapping = before.take_while(|(_, promise)| promise.end > range.start);
        overlapping.filter_map(|(_, promise)| promise.left(now)).max()
    }

    /// Refuses new promises. Returns how long the present ones still hold.
    pub(super) fn close(&mut self, now: Instant) -> Option<Duration> {
        self.is_closed = true;
        self.made.values().filter_map(|promise| promise.left(now)).max()
    }

    /// Makes promises again.
    pub(super) fn open(&mut self) {
        self.is_closed = false;
    }
}

impl Promise {
    fn is_wanted(&self, now: Instant) -> bool {
        self.wanted_at.is_some_and(|at| now.saturating_duration_since(at) < WANTED)
    }

    fn left(&self, now: Instant) -> Option<Duration> {
        Some(self.until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(counter: u64) -> Version {
        Version { counter, ..Version::default() }
    }

    #[test]
    fn what_is_promised_is_in_the_way_until_the_promise_ends() {
        let (now, mut promises) = (Instant::now(), Promises::default());
        assert_eq!(promises.make(&(100..200), version(1), now), Ok(()));
        assert_eq!(promises.make(&(300..400), version(2), now + PROMISE / 2), Ok(()));
        for (range, left) in [
            (0..100, None),
            (0..101, Some(PROMISE)),
            (199..200, Some(PROMISE)),
            (200..300, None),
            (150..350, Some(PROMISE + PROMISE / 2)),
            (400..500, None),
        ] {
            assert_eq!(promises.patience(&range, now), left, "{range:?}");
        }
        let later = now + PROMISE;
        assert_eq!(promises.patience(&(0..300), later), None);
        assert_eq!(promises.patience(&(0..301), later), Some(PROMISE / 2));
    }

    #[test]
    fn promises_that_are_over_hide_none_that_holds() {
        let (now, mut promises) = (Instant::now(), Promises::default());
        for entry in [100..110, 50..60, 120..150] {
            assert_eq!(promises.make(&entry, version(1), now), Ok(()));
        }
        let later = now + PROMISE;
        assert_eq!(promises.make(&(40..130), version(2), later), Ok(()));
        for range in [105..106, 55..65, 115..118, 125..126] {
            assert_eq!(promises.patience(&range, later), Some(PROMISE), "{range:?}");
        }
        assert_eq!(promises.patience(&(130..140), later), None);
    }

    #[test]
    fn what_somebody_wants_gone_is_not_promised_again() {
        let (now, mut promises) = (Instant::now(), Promises::default());
        assert_eq!(promises.make(&(0..9), version(1), now), Ok(()));
        assert_eq!(promises.end(0, version(2), now), None, "another version");
        assert_eq!(promises.make(&(0..9), version(1), now), Ok(()));
        assert_eq!(promises.end(0, version(1), now), Some(PROMISE));
        let refused = Err(ErrorCode::NoAvailableHandle);
        for later in [now + PROMISE / 2, now + PROMISE, now + WANTED - PROMISE / 100] {
            assert_eq!(promises.make(&(0..9), version(1), later), refused);
        }
        assert_eq!(promises.make(&(0..9), version(2), now + PROMISE), Ok(()), "another version");
        assert_eq!(promises.end(0, version(1), now + PROMISE), None);
        assert_eq!(promises.end(0, version(2), now + PROMISE), Some(PROMISE));
        assert_eq!(
            promises.make(&(0..9), version(2), now + PROMISE + WANTED),
            Ok(()),
            "nobody asks"
        );
        let now = now + PROMISE + WANTED;
        assert_eq!(promises.end(0, version(2), now), Some(PROMISE));
        assert_eq!(promises.end(0, version(2), now + PROMISE), None);
        assert_eq!(promises.made.len(), 0);
        assert_eq!(promises.make(&(0..9), version(1), now + PROMISE), Ok(()));
    }

    #[test]
    fn there_are_only_so_many() {
        let (now, mut promises) = (Instant::now(), Promises::default());
        for at in 0..MOST as u64 {
            assert!(promises.make(&(at..at + 1), version(1), now).is_ok());
        }
        let one_more = MOST as u64..MOST as u64 + 1;
        let refused = Err(ErrorCode::NoAvailableHandle);
        assert_eq!(promises.make(&one_more, version(1), now), refused);
        assert_eq!(promises.make(&one_more, version(1), now + PROMISE), Ok(()));
        assert_eq!(promises.made.len(), 1, "those that are over make room");
    }

    #[test]
    fn a_segment_that_goes_promises_nothing_more() {
        let (now, mut promises) = (Instant::now(), Promises::default());
        assert_eq!(promises.close(now), None);
        assert_eq!(promises.make(&(0..1), version(1), now), Err(ErrorCode::NoAvailableHandle));
    }
}
