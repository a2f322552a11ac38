//! A thread for the work on segments that nobody waits for: it checks what earlier processes left in them, and
//! populates their pages before writers reach them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, thread};

use mooncake_memory::{
    Watch, online_processors, own_processor_time, running_threads, spawn_unpinned,
};

use crate::host::Host;
use crate::mapped::Segment;

/// First pause of the thread when other threads want the processors.
const PAUSE: Duration = Duration::from_millis(2);

/// How long the thread checks entries before it looks whether others want the processors.
const CHECK_STEP: Duration = Duration::from_millis(2);

/// Longest pause of the thread.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A thread that has the system provide the pages of all segments shortly before they are written, and checks the
/// entries of earlier processes in them. It starts with the first segment, and stops when this is dropped.
pub struct UpkeepThread {
    host: Arc<Host>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl UpkeepThread {
    /// Starts the thread if a segment is lent.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn start(host: &Arc<Host>) -> io::Result<Self> {
        let upkeep =
            Self { host: Arc::clone(host), stop: Arc::default(), thread: Mutex::default() };
        if !host.segments().is_empty() {
            upkeep.start_or_wake()?;
        }
        Ok(upkeep)
    }

    /// Serves segments that were lent since the last call, too. Starts the thread if it does not run yet.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub fn start_or_wake(&self) -> io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = &*thread {
            thread.thread().unpark();
            return Ok(());
        }
        let (host, stop) = (Arc::clone(&self.host), Arc::clone(&self.stop));
        let name = "mooncake-upkeep".to_owned();
        let builder = Builder::new().name(name);
        *thread = Some(spawn_unpinned(builder, move || work(&host, &stop))?);
        Ok(())
    }
}

impl Drop for UpkeepThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            thread.thread().unpark();
            // A panic there was reported already, and harms no other thread.
            let _ = thread.join();
        }
    }
}

/// The thread yields by pauses, not by a low priority. While the system provides pages it holds a lock of the whole
/// address space: a thread that held it and never ran would keep all others from starting threads. Its pauses are
/// bounded, since the processors may never be idle.
fn work(host: &Host, stop: &AtomicBool) {
    let mut pace = Pace::default();
    while !stop.load(Ordering::Relaxed) {
        let before = own_processor_time();
        if step(host) {
            let load = Load::since(before);
            rest(pace.after_step(load.is_crowded()), stop);
        } else {
            thread::park();
        }
    }
}

/// Waits for `pause`, even if there is more to do meanwhile.
fn rest(pause: Duration, stop: &AtomicBool) {
    let until = Instant::now() + pause;
    while !stop.load(Ordering::Relaxed) {
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return,
            left => thread::park_timeout(left),
        }
    }
}

/// How long the thread rests after each step.
#[derive(Debug, Default)]
struct Pace(Duration);

impl Pace {
    /// Doubles the pause each time that other threads want the processors.
    fn after_step(&mut self, is_crowded: bool) -> Duration {
        self.0 = match is_crowded {
            true => (self.0 * 2).clamp(PAUSE, LONGEST_PAUSE),
            false => Duration::ZERO,
        };
        self.0
    }
}

/// How much other threads want the processors.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Threads of the machine that run or want to, and the number of processors that they may use.
    machine: Option<(usize, usize)>,
    /// Threads of this process that poll for a message: these yield.
    polling: usize,
    /// How long the last step ran, and how long it waited for one of the processors that this process may use.
    own: Option<(Duration, Duration)>,
}

impl Load {
    /// The present load, after a step. `before` holds the processor times of the thread at the start of the step.
    fn since(before: Option<(Duration, Duration)>) -> Self {
        let own = before.zip(own_processor_time()).map(|((ran, waited), (runs, waits))| {
            (runs.saturating_sub(ran), waits.saturating_sub(waited))
        });
        Self { machine: running_threads().zip(online_processors()), polling: Watch::polling(), own }
    }

    /// In a container that may use a part of the machine, the machine's threads say nothing, but the waiting time of
    /// this thread does.
    fn is_crowded(self) -> bool {
        let is_full = |(running, processors): (usize, usize)| running > processors + self.polling;
        let has_waited = |(ran, waited): (Duration, Duration)| waited > ran / 4;
        self.machine.is_some_and(is_full) || self.own.is_some_and(has_waited)
    }
}

/// One step of work in one segment; false if there is none for now. No segment is referenced between steps.
fn step(host: &Host) -> bool {
    host.segments().iter().any(|segment| {
        segment.prefaulted().set_worker(thread::current());
        segment.prefaulted().step(segment.region()) || check_some(segment)
    })
}

/// Checks entries of an earlier process for a moment; false if all were checked.
fn check_some(segment: &Segment) -> bool {
    let begun = Instant::now();
    let mut has_checked = false;
    while begun.elapsed() < CHECK_STEP && segment.check_next() {
        has_checked = true;
        if segment.unchecked_entries() == 0 {
            tell_of_checks(segment);
        }
    }
    has_checked
}

fn tell_of_checks(segment: &Segment) {
    let (id, damaged) = (segment.id(), segment.damaged_entries());
    if damaged == 0 {
        tracing::info!(segment = %id, "all objects of a named segment are as they were written");
    } else {
        tracing::warn!(
            segment = %id,
            damaged,
            "objects of a named segment are not as they were written: they are dropped"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_container_on_a_busy_machine_counts_only_what_keeps_it_waiting() {
        let ms = Duration::from_millis;
        for (machine, polling, own, expected) in [
            // Ten threads run on 64 processors, of which the container may use two.
            (Some((10, 64)), 0, Some((ms(1), ms(0))), false),
            (Some((10, 64)), 0, Some((ms(4), ms(2))), true),
            (Some((65, 64)), 0, Some((ms(1), ms(0))), true),
            (Some((65, 64)), 1, Some((ms(1), ms(0))), false),
            (None, 0, None, false),
        ] {
            let load = Load { machine, polling, own };
            assert_eq!(load.is_crowded(), expected, "{load:?}");
        }
    }

    #[test]
    fn where_others_always_want_the_processors_pages_are_provided_slowly() {
        let mut pace = Pace::default();
        let pauses: Vec<u128> = (0..8).map(|_| pace.after_step(true).as_millis()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 50, 50, 50]);
        assert_eq!(pace.after_step(false), Duration::ZERO);
        assert_eq!(pace.after_step(true), PAUSE);
    }
}
