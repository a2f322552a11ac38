use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

/// Threads that wait at a time, the calling one among them.
const MOST: usize = 16;

/// Stack of a thread that connects to a peer.
const STACK_BYTES: usize = 128 << 10;

/// Does work that mostly waits for all items at the same time, and gives the results in their order. Where the system has
/// no more threads, it takes longer.
pub(crate) fn at_once<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let run = || {
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(position) else { return };
            let result = work(item);
            results.lock().expect("nothing panics with it").push((position, result));
        }
    };
    thread::scope(|scope| {
        for _ in 1..items.len().min(MOST) {
            let thread = Builder::new().name("mooncake-dial".to_owned()).stack_size(STACK_BYTES);
            if thread.spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    let mut results = results.into_inner().expect("nothing panics with it");
    results.sort_unstable_by_key(|&(position, _)| position);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn all_wait_at_the_same_time_and_results_keep_their_order() {
        let barrier = Barrier::new(MOST);
        let items: Vec<usize> = (0..MOST).collect();
        let results = at_once(&items, |item| {
            // No thread passes it before all are there.
            barrier.wait();
            item * 2
        });
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        let many: Vec<usize> = (0..100).collect();
        assert_eq!(at_once(&many, |item| *item), many);
        assert_eq!(at_once(&[] as &[usize], |item| *item), []);
    }
}
