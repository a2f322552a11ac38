use std::sync::Arc;
use std::time::Instant;

use mooncake_ha::{Leadership, boot_time};
use tokio::sync::watch;
use tokio::time::sleep;

/// Until when this master may act as the leader. The thread that keeps the leadership moves it on; the owner looks at
/// it between reading a request and acting on it.
#[derive(Clone, Debug)]
pub(crate) struct Tenure {
    leadership: Leadership,
    ended: Arc<watch::Sender<bool>>,
}

/// What a master may do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It leads, and nobody else does.
    Sure,
    /// It led, its lease is over, and it does not know whether another leads: it waits for the coordinator.
    Suspended,
    /// It leads no more.
    Over,
}

impl Tenure {
    pub(crate) fn new(leadership: Leadership) -> Tenure {
        Tenure { leadership, ended: Arc::new(watch::Sender::new(false)) }
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Whether the master leads at this moment.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        now < self.leadership.valid_until()
    }

    /// What the master may do at this moment.
    pub(crate) fn hold(&self, now: Instant) -> Hold {
        if self.holds(now) {
            Hold::Sure
        } else if now < self.leadership.lasts_until() && !*self.ended.borrow() {
            Hold::Suspended
        } else {
            Hold::Over
        }
    }

    /// See [`Leadership::lease_end`].
    pub(crate) fn lease_end(&self) -> Option<Instant> {
        self.leadership.lease_end()
    }

    /// Completes when the tenure was ended, or ran out, however often it is prolonged before.
    pub(crate) async fn over(&self) {
        let mut ended = self.ended.subscribe();
        loop {
            let until = self.leadership.lasts_until();
            let left = until.saturating_duration_since(boot_time::now());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                () = sleep(left) => {}
                // The sender lives as long as this.
                _ = ended.wait_for(|ended| *ended) => return,
            }
        }
    }
}
