use std::mem::zeroed;
use std::sync::OnceLock;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use crate::broken_thread::witness;
use crate::numa;

/// Starts a thread that serves the process as a whole: one that answers other processes, or keeps something up for them.
/// It may run wherever any thread of the process may.
///
/// A thread inherits the processors of the one that starts it, and inference engines pin those that compute to one
/// processor each. Behind such a thread, which spins while it waits for work, a thread of ours would be kept from running
/// for as long as the other spins, while the next processor is idle.
///
/// If it panics, [`crate::broken_thread`] says so from then on.
///
/// # Errors
/// The system has no thread.
pub fn spawn_unpinned<T: Send + 'static>(
    thread: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread.spawn(move || {
        unpin();
        witness(work)
    })
}

/// How many threads of the machine run or want to, the calling one among them; unknown where the system does not say.
#[must_use]
pub fn running_threads() -> Option<usize> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// How many processors the machine has that run threads; unknown where the system does not say.
#[must_use]
pub fn online_processors() -> Option<usize> {
    // SAFETY: only asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).ok()
}

/// How long the calling thread has run, and how long it has waited for a processor: behind others, or because its container had
/// used up its share. Unknown where the system does not say.
#[must_use]
pub fn own_processor_time() -> Option<(Duration, Duration)> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut times = text.split_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
    Some((times.next()?.ok()?, times.next()?.ok()?))
}

/// How many threads could be of use beside the calling one: on processors on which nobody runs now, among those that threads of
/// this process may use; none where the system does not say.
pub(crate) fn idle_processors() -> usize {
    static ALLOWED: OnceLock<usize> = OnceLock::new();
    let allowed = *ALLOWED.get_or_init(|| of_all_threads().map_or(1, |all| members(&all).count()));
    let idle = running_threads()
        .and_then(|running| online_processors()?.checked_sub(running))
        .unwrap_or(0);
    // A thread that is pinned may share its processor with one that spins while the next one is idle.
    let is_pinned = of_thread(0).is_ok_and(|own| members(&own).count() < allowed);
    idle.max(usize::from(is_pinned)).min(allowed.saturating_sub(1))
}

/// Where the system does not say what the others may use, or does not let go, the thread runs where it is.
pub(crate) fn unpin() {
    // Who asked for the processors of a node is to have our threads there too.
    if !numa::is_bound()
        && let Ok(all) = of_all_threads()
    {
        let _ = run_on(&all);
    }
}

/// The processors that at least one thread of this process may use.
fn of_all_threads() -> io::Result<libc::cpu_set_t> {
    let mut all = none();
    for task in fs::read_dir("/proc/self/task")? {
        let name = task?.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended since.
        let Ok(set) = of_thread(id) else { continue };
        for processor in members(&set) {
            add(&mut all, processor);
        }
    }
    Ok(all)
}

/// The processors that a thread may use; 0 is the calling one.
fn of_thread(id: libc::pid_t) -> io::Result<libc::cpu_set_t> {
    let mut set = none();
    // SAFETY: the kernel writes at most as many bytes as the set has.
    let result = unsafe { libc::sched_getaffinity(id, size_of_val(&set), &raw mut set) };
    if result == 0 { Ok(set) } else { Err(io::Error::last_os_error()) }
}

/// Has the calling thread run on these processors, as far as the process may use them.
pub(crate) fn run_on(processors: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as the set has; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(processors), processors) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub(crate) fn none() -> libc::cpu_set_t {
    // SAFETY: a set of processors is plain bits; all zero is the empty set.
    unsafe { zeroed() }
}

/// Adds a processor; one beyond the size of a set is left out.
pub(crate) fn add(set: &mut libc::cpu_set_t, processor: usize) {
    if processor < libc::CPU_SETSIZE as usize {
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(processor, set) };
    }
}

fn members(set: &libc::cpu_set_t) -> impl Iterator<Item = usize> {
    // SAFETY: every number is below the size of the set.
    (0..libc::CPU_SETSIZE as usize).filter(|&processor| unsafe { libc::CPU_ISSET(processor, set) })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn own() -> Vec<usize> {
        members(&of_thread(0).expect("a thread may ask for its own processors")).collect()
    }

    #[test]
    fn a_thread_that_a_pinned_one_starts_runs_where_the_others_may() {
        let everywhere = own();
        let (pinned, inherited, unpinned) = thread::spawn(|| {
            let mut first = none();
            add(&mut first, own()[0]);
            run_on(&first).expect("one of its own processors");
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
            let mut first = none();
            add(&mut first, own()[0]);
            run_on(&first).expect("one of its own processors");
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
