//! Polls for the next request instead of blocking, while requests come fast. No other part of the master polls.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mooncake_types::BusyWait;
use tokio::sync::Notify;
use tokio::task::yield_now;

use crate::shell::Shell;

/// When requests arrived and were answered, on all connections.
#[derive(Debug)]
pub(crate) struct RequestPoller {
    policy: Cell<BusyWait>,
    arrivals: Cell<u64>,
    idle_since: Cell<Instant>,
    /// Until then it does not poll, because other threads wanted the processor.
    paused_until: Cell<Instant>,
    answered: Notify,
}

impl RequestPoller {
    /// Polls for `limit` at most; never if that is zero, or there is only one processor.
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

    /// Bytes of a request arrived.
    pub(crate) fn on_arrival(&self) {
        self.arrivals.set(self.arrivals.get().wrapping_add(1));
        let mut policy = self.policy.get();
        policy.on_wait(self.idle_since.get().elapsed());
        self.policy.set(policy);
    }

    /// All requests that had arrived on one connection are answered.
    pub(crate) fn on_answered(&self) {
        let now = Instant::now();
        self.idle_since.set(now);
        if !self.policy.get().budget().is_zero() && now >= self.paused_until.get() {
            self.answered.notify_one();
        }
    }

    /// Polls for the next request for as long as the policy says. Each poll is one turn of the runtime, which runs
    /// ready tasks and polls the sockets without blocking. In between it yields the processor to other threads.
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

/// Keeps the runtime from blocking while requests come fast. Runs until it is dropped.
pub(crate) async fn run(shell: Rc<Shell>) {
    loop {
        shell.request_poller.answered.notified().await;
        shell.request_poller.look().await;
    }
}
