use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::broken_thread::witness;
use crate::numa;

/// Starts a thread that serves the whole process, for example one that answers other processes. It may run on every
/// processor that some thread of the process may use.
///
/// A thread inherits the processors of the thread that starts it. Inference engines pin each of their compute threads
/// to one processor, where it spins while it waits for work. A thread of ours on that processor would not run as long
/// as the other spins, even if the next processor is idle.
///
/// If the thread panics, [`crate::broken_thread`] reports it from then on.
///
/// # Errors
/// The system cannot start a thread.
pub fn spawn_unpinned<T: Send + 'static>(
    thread: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread.spawn(move || {
        unpin();
        witness(work)
    })
}

/// How many threads of the machine are runnable, including the calling one. `None` if the kernel does not tell.
#[must_use]
pub fn running_threads() -> Option<usize> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How many processors of the machine are online. `None` if the kernel does not tell.
#[must_use]
pub fn online_processors() -> Option<usize> {
    // SAFETY: returns a number; no memory is involved.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

/// How long the calling thread has run, and how long it was runnable and waited for a processor. It waits behind other
/// threads, or because its container used up its quota. `None` if the kernel does not tell.
#[must_use]
pub fn own_processor_time() -> Option<(Duration, Duration)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
    Some((times.next()?.ok()?, times.next()?.ok()?))
}

/// How many further threads could run now on idle processors that this process may use. Zero if the kernel does not
/// tell.
pub(crate) fn idle_processors() -> usize {
    static ALLOWED: OnceLock<u32> = OnceLock::new();
    let allowed = *ALLOWED.get_or_init(|| of_all_threads().map_or(1, |all| all.count()));
    let idle = running_threads()
        .and_then(|running| online_processors()?.checked_sub(running))
        .unwrap_or(0);
    // A pinned thread may share its processor with a spinning one while the next processor is idle.
    let is_pinned = sched_getaffinity(None).is_ok_and(|own| own.count() < allowed);
    idle.max(usize::from(is_pinned)).min(allowed.saturating_sub(1) as usize)
}

/// Lets this thread run on every processor that some thread of the process may use. If the kernel refuses, it stays
/// where it is.
pub(crate) fn unpin() {
    // A process that was bound to a NUMA node wants our threads on that node too.
    if !numa::is_bound()
        && let Ok(all) = of_all_threads()
    {
        let _ = sched_setaffinity(None, &all);
    }
}

/// The processors that at least one thread of this process may use.
fn of_all_threads() -> io::Result<CpuSet> {
    let mut all = CpuSet::new();
    for task in fs::read_dir("/proc/self/task")? {
        let name = task?.file_name();
        let id = name.to_str().and_then(|name| name.parse().ok());
        let Some(id) = id.and_then(Pid::from_raw) else { continue };
        // The thread may have ended in the meantime.
        let Ok(set) = sched_getaffinity(Some(id)) else { continue };
        members(&set).for_each(|processor| all.set(processor));
    }
    Ok(all)
}

fn members(set: &CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn own() -> Vec<usize> {
        members(&sched_getaffinity(None).expect("a thread may ask for its own processors"))
            .collect()
    }

    /// Pins this thread to one processor.
    fn pin(processor: usize) {
        let mut one = CpuSet::new();
        one.set(processor);
        sched_setaffinity(None, &one).expect("one of its own processors");
    }

    #[test]
    fn a_thread_that_a_pinned_one_starts_runs_where_the_others_may() {
        let everywhere = own();
        let (pinned, inherited, unpinned) = thread::spawn(|| {
            pin(own()[0]);
            let inherited = thread::spawn(own).join();
            let unpinned = spawn_unpinned(Builder::new(), own).expect("there are threads").join();
            (own(), inherited.expect("it does not panic"), unpinned.expect("it does not panic"))
        })
        .join()
        .expect("it does not panic");
        assert_eq!(pinned, everywhere[..1]);
        assert_eq!(inherited, pinned, "else there would be nothing to do");
        assert_eq!(unpinned, everywhere);
    }

    #[test]
    fn this_thread_runs_and_its_processor_is_not_idle() {
        assert!(running_threads().is_some_and(|running| running >= 1));
        let most = own().len() - 1;
        assert!(idle_processors() <= most);
        let of_pinned = thread::spawn(|| {
            pin(own()[0]);
            idle_processors()
        });
        let of_pinned = of_pinned.join().expect("it does not panic");
        assert!((most.min(1)..=most).contains(&of_pinned));
    }

    #[test]
    fn a_thread_that_ends_meanwhile_is_no_matter() {
        let (stop, stopped) = channel::<()>();
        let churn = thread::spawn(move || {
            while stopped.try_recv().is_err() {
                thread::spawn(|| ()).join().expect("it does nothing");
            }
        });
        for _ in 0..100 {
            let all = of_all_threads().expect("the system lists its threads");
            assert_eq!(members(&all).collect::<Vec<_>>(), own());
        }
        stop.send(()).expect("it listens");
        churn.join().expect("it does not panic");
    }
}
