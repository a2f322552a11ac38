//! Looks for the next request instead of sleeping, while requests come fast: the only place of the master that does.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mooncake_types::BusyWait;
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::shell::Shell;

/// When requests came and were answered, on all connections.
#[derive(Debug)]
pub(crate) struct Lookout {
    policy: Cell<BusyWait>,
    arrivals: Cell<u64>,
    idle_since: Cell<Instant>,
    /// Others wanted the processor.
    paused_until: Cell<Instant>,
    answered: Notify,
}

impl Lookout {
    /// Looks for `limit` at most; never if that is zero or there is but one processor.
    pub(crate) fn new(limit: Duration) -> Self {
        let alone = std::thread::available_parallelism().map_or(true, |count| count.get() < 2);
        let limit = if alone { Duration::ZERO } else { limit };
        let now = Instant::now();
        Self {
            policy: Cell::new(BusyWait::new(limit)),
            arrivals: Cell::new(0),
            idle_since: Cell::new(now),
            paused_until: Cell::new(now),
            answered: Notify::new(),
        }
    }

    /// Bytes of a request came.
    pub(crate) fn on_arrival(&self) {
        self.arrivals.set(self.arrivals.get().wrapping_add(1));
        let mut policy = self.policy.get();
        policy.on_wait(self.idle_since.get().elapsed());
        self.policy.set(policy);
    }

    /// All requests that had come on one connection are answered.
    pub(crate) fn on_answered(&self) {
        let now = Instant::now();
        self.idle_since.set(now);
        if !self.policy.get().budget().is_zero() && now >= self.paused_until.get() {
            self.answered.notify_one();
        }
    }

    /// Looks for the next request for as long as the policy says. Each look is one turn of the runtime: what is ready is
    /// worked on, and the sockets are asked without waiting. In between the processor is offered to others.
    async fn look(&self) {
        let (began, budget) = (Instant::now(), self.policy.get().budget());
        let seen = self.arrivals.get();
        while began.elapsed() < budget {
            yield_now().await;
            if self.arrivals.get() != seen {
                return;
            }
            let before = Instant::now();
            std::thread::yield_now();
            let now = Instant::now();
            if let Some(pause) = BusyWait::pause_after(now - before) {
                return self.paused_until.set(now + pause);
            }
        }
    }
}

/// Keeps the runtime from sleeping while requests come fast. Runs until it is dropped.
pub(crate) async fn run(shell: Rc<Shell>) {
    loop {
        shell.lookout.answered.notified().await;
        shell.lookout.look().await;
    }
}
