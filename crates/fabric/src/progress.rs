//! The thread that lets targets work, for providers whose transfers only move while a thread calls them.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::target::{ServedPort, Turn};
use crate::wait::wait_for_any;

/// Longest sleep, after which new targets are noticed.
const SLEEP: Duration = Duration::from_millis(10);
/// Sleep if a provider has nothing to wait for.
const NAP: Duration = Duration::from_micros(20);
/// A turn of such a provider that takes this long has moved bytes: it tells nothing else about what peers do.
const WORK: Duration = Duration::from_micros(1);
/// For how long more work is expected then, without a nap.
const AWAKE: Duration = Duration::from_micros(300);
/// For how long the descriptors of work are polled after there was some: to sleep and to be woken takes longer than to
/// serve a small read.
const POLL: Duration = Duration::from_micros(50);

/// The targets of a domain that need a thread, and whether they have it.
#[derive(Default)]
pub(crate) struct Progress {
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    ports: Arc<Vec<Arc<ServedPort>>>,
    has_thread: bool,
}

impl Progress {
    fn served(&self) -> MutexGuard<'_, Served> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a target from now on.
    pub(crate) fn serve(self: &Arc<Self>, port: Arc<ServedPort>) {
        let mut served = self.served();
        Arc::make_mut(&mut served.ports).push(port);
        if !served.has_thread {
            served.has_thread = true;
            let progress = Arc::clone(self);
            let name = "fabric-progress".to_owned();
            let started = thread::Builder::new().name(name).spawn(move || progress.run());
            started.expect("a process can start a thread");
        }
    }

    /// Serves a target no more.
    pub(crate) fn leave(&self, port: &Arc<ServedPort>) {
        Arc::make_mut(&mut self.served().ports).retain(|other| !Arc::ptr_eq(other, port));
    }

    /// Serves until no target is left.
    fn run(&self) {
        let mut last_work = Instant::now();
        loop {
            let ports = {
                let mut served = self.served();
                if served.ports.is_empty() {
                    served.has_thread = false;
                    return;
                }
                Arc::clone(&served.ports)
            };
            let (mut descriptors, mut sleep) = (Vec::new(), SLEEP);
            for port in ports.iter() {
                let begun = Instant::now();
                match port.turn() {
                    Turn::Wait(descriptor) => descriptors.push(descriptor),
                    Turn::Again => sleep = Duration::ZERO,
                    Turn::Nap => {
                        let ended = Instant::now();
                        if ended - begun > WORK {
                            last_work = ended;
                        }
                        if ended - last_work < AWAKE {
                            sleep = Duration::ZERO;
                            thread::yield_now();
                        }
                        sleep = sleep.min(NAP);
                    }
                    Turn::Closed => self.leave(port),
                }
            }
            drop(ports);
            if !sleep.is_zero() && wait(&descriptors, sleep, last_work) {
                last_work = Instant::now();
            }
        }
    }
}

/// Waits until a descriptor tells of work, or for this time. Returns whether there is work.
fn wait(descriptors: &[RawFd], time: Duration, last_work: Instant) -> bool {
    while !descriptors.is_empty() && last_work.elapsed() < POLL {
        if wait_for_any(descriptors, Duration::ZERO) {
            return true;
        }
        thread::yield_now();
    }
    wait_for_any(descriptors, time)
}
