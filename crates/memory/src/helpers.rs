use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

use crate::processors::{idle_processors, unpin};

/// Bytes that are worth a thread: it takes some 50 us to start one, and ten times as long to copy these.
const BYTES_A_THREAD: u64 = 2 << 20;

/// Most threads that help at once: a few have all that the memory of a machine gives.
const MOST_HELPERS: usize = 3;

/// Does `work` for each item, and gives the results in the order of the items. It moves about `bytes` in all: if they are
/// many, further threads help, as many as there are idle processors at the moment.
///
/// # Panics
/// If `work` does.
pub fn with_helpers<T: Sync, R: Send>(
    items: &[T],
    bytes: u64,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let worth = usize::try_from(bytes / BYTES_A_THREAD).unwrap_or(usize::MAX).min(items.len());
    let helpers = match worth.saturating_sub(1) {
        0 => 0,
        wanted => wanted.min(MOST_HELPERS).min(idle_processors()),
    };
    share_out(items, helpers, work)
}

fn share_out<T: Sync, R: Send>(
    items: &[T],
    helpers: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if helpers == 0 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let take_turns = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let help = || {
        unpin();
        take_turns()
    };
    let mut done = thread::scope(|scope| {
        // Without a thread there is less help.
        let started = (0..helpers).map(|_| named().spawn_scoped(scope, help));
        let started: Vec<_> = started.filter_map(Result::ok).collect();
        let mut done = take_turns();
        for helper in started {
            done.extend(helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn named() -> Builder {
    Builder::new().name("mooncake-copy".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Barrier, Mutex};

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items_whoever_does_the_work() {
        let items: Vec<usize> = (0..1000).collect();
        for helpers in 0..5 {
            assert_eq!(
                share_out(&items, helpers, |item| item * 3),
                (0..3000).step_by(3).collect::<Vec<_>>()
            );
        }
        assert_eq!(share_out(&[0; 0], 2, |item: &i32| *item), []);
        assert_eq!(with_helpers(&items, u64::MAX, |item| item + 1), (1..=1000).collect::<Vec<_>>());
    }

    #[test]
    fn helpers_work_at_the_same_time() {
        let (all, who) = (Barrier::new(3), Mutex::new(HashSet::new()));
        share_out(&[(); 3], 2, |()| {
            all.wait();
            who.lock().expect("nobody panics").insert(thread::current().id());
        });
        assert_eq!(who.into_inner().expect("nobody panics").len(), 3);
    }

    #[test]
    fn few_bytes_are_moved_by_the_caller_alone() {
        let caller = thread::current().id();
        let who = with_helpers(&[(); 9], 2 * BYTES_A_THREAD - 1, |()| thread::current().id());
        assert_eq!(who, [caller; 9]);
    }

    #[test]
    fn a_panic_of_a_helper_is_that_of_the_call() {
        let panicked = std::panic::catch_unwind(|| {
            share_out(&[1, 2, 3, 4], 3, |&item| assert!(item != 3, "no threes"));
        });
        assert!(panicked.is_err());
    }
}
