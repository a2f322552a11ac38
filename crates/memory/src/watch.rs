use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mooncake_types::BusyWait;

use crate::Wait;

/// How many threads of this process poll now.
static POLLING: AtomicUsize = AtomicUsize::new(0);

/// Until this time no thread polls, because a polling thread noticed that others want the processor. In nanoseconds
/// since the first call of [`since_start`].
static PAUSED_UNTIL: AtomicU64 = AtomicU64::new(0);

fn since_start(now: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let ns = now.saturating_duration_since(*START.get_or_init(|| now)).as_nanos();
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// Waits repeatedly for one socket: polls as long as [`BusyWait`] allows, and then blocks. It yields the processor
/// between two polls. At most half of a process's processors poll at a time, so none if there is only one.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    policy: BusyWait,
}

/// The right to poll.
struct Permit;

impl Permit {
    fn take() -> Option<Self> {
        static MOST: OnceLock<usize> = OnceLock::new();
        let most = *MOST
            .get_or_init(|| std::thread::available_parallelism().map_or(0, |all| all.get() / 2));
        if POLLING.fetch_add(1, Ordering::Relaxed) < most {
            return Some(Self);
        }
        POLLING.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        POLLING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watch {
    /// A watch that polls for at most `limit` before it blocks. With zero it never polls.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { policy: BusyWait::new(limit) }
    }

    /// How many threads of this process poll now. They count as running, but yield to others.
    #[must_use]
    pub fn polling() -> usize {
        POLLING.load(Ordering::Relaxed)
    }

    /// Repeats `step` with [`Wait::Now`] as long as polling pays and `is_not_ready` holds of its error. Then calls it
    /// once with [`Wait::Block`].
    ///
    /// # Errors
    /// The error of the last call of `step`.
    pub fn wait<T, E>(
        &mut self,
        mut step: impl FnMut(Wait) -> Result<T, E>,
        is_not_ready: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let started = Instant::now();
        let polled = self.poll(started, || match step(Wait::Now) {
            Err(error) if is_not_ready(&error) => None,
            answer => Some(answer),
        });
        let answer = polled.unwrap_or_else(|| step(Wait::Block));
        self.policy.on_wait(started.elapsed());
        answer
    }

    fn poll<T>(&mut self, started: Instant, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        let budget = self.policy.budget();
        if budget.is_zero() || since_start(started) < PAUSED_UNTIL.load(Ordering::Relaxed) {
            return None;
        }
        let _permit = Permit::take()?;
        let mut before = started;
        loop {
            if let Some(found) = poll() {
                return Some(found);
            }
            std::thread::yield_now();
            let now = Instant::now();
            // The socket may be ready by now: polling once more returns that, before polling pauses.
            if let Some(pause) = BusyWait::pause_after(now - before) {
                PAUSED_UNTIL.fetch_max(since_start(now + pause), Ordering::Relaxed);
                return poll();
            }
            if now - started >= budget {
                return None;
            }
            before = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// A step that is ready after `polls` calls, or when it may block. Records each call in `taken`.
    fn after<'a>(
        polls: usize,
        taken: &'a mut Vec<Wait>,
    ) -> impl FnMut(Wait) -> Result<(), &'static str> + 'a {
        move |wait| {
            taken.push(wait);
            match wait {
                Wait::Now if taken.len() <= polls => Err("not ready"),
                _ => Ok(()),
            }
        }
    }

    fn trusting() -> Watch {
        let mut watch = Watch::new(LIMIT);
        (0..8).for_each(|_| watch.policy.on_wait(Duration::ZERO));
        watch
    }

    #[test]
    fn it_blocks_at_once_until_waits_were_short() {
        let mut watch = Watch::new(LIMIT);
        for _ in 0..4 {
            let mut taken = Vec::new();
            watch.wait(after(0, &mut taken), |error| *error == "not ready").unwrap();
            assert_eq!(taken, [Wait::Block]);
        }
        let mut taken = Vec::new();
        watch.wait(after(0, &mut taken), |error| *error == "not ready").unwrap();
        // With one processor there is no polling, and another test may have paused all polling.
        assert_eq!(taken.len(), 1);
    }

    #[test]
    fn it_never_polls_without_a_limit() {
        let mut watch = Watch::new(Duration::ZERO);
        for _ in 0..20 {
            let mut taken = Vec::new();
            watch.wait(after(0, &mut taken), |_| true).unwrap();
            assert_eq!(taken, [Wait::Block]);
        }
    }

    #[test]
    fn a_poll_that_takes_too_long_ends_in_a_wait() {
        let mut watch = Watch { policy: BusyWait::new(Duration::from_micros(50)) };
        (0..8).for_each(|_| watch.policy.on_wait(Duration::ZERO));
        let mut taken = Vec::new();
        watch.wait(after(usize::MAX, &mut taken), |_| true).unwrap();
        assert_eq!(taken.last(), Some(&Wait::Block));
    }

    #[test]
    fn an_error_that_is_not_about_readiness_ends_the_wait() {
        let mut count = 0;
        let mut fail = |_| {
            count += 1;
            Err::<(), _>("broken")
        };
        assert_eq!(trusting().wait(&mut fail, |error| *error == "not ready"), Err("broken"));
        assert_eq!(count, 1);
    }

    #[test]
    fn permits_are_given_back() {
        let most = std::thread::available_parallelism().map_or(0, |all| all.get() / 2);
        for _ in 0..100 {
            let taken: Vec<Option<Permit>> = (0..most + 3).map(|_| Permit::take()).collect();
            assert!(taken.iter().flatten().count() <= most);
        }
        for _ in 0..3 * most {
            drop(Permit::take());
        }
        let begin = Instant::now();
        while most > 0 && Permit::take().is_none() {
            assert!(begin.elapsed() < LIMIT, "a permit was lost");
        }
    }
}
