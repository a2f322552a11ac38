use std::sync::Arc;
use std::time::Instant;

use mooncake_ha::{Leadership, boot_time};
use tokio::sync::watch;
use tokio::time::sleep;

/// One leadership of this master, from its election on. The election thread prolongs it. Before each request, the
/// owner asks what it may still do.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    pub(crate) leadership: Leadership,
    /// Whether the record outlives the master. If not, no request waits for it.
    pub(crate) is_recorded: bool,
    ended: Arc<watch::Sender<bool>>,
}

/// What a master may do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// It leads, and no other master does.
    Leads,
    /// Its lease is over, and it does not know whether another master leads: it waits for the coordinator.
    Suspended,
    /// Its leadership is over.
    Over,
}

impl Term {
    pub(crate) fn new(leadership: Leadership) -> Term {
        Term { leadership, is_recorded: true, ended: Arc::new(watch::Sender::new(false)) }
    }

    /// The term of a master that keeps no record.
    pub(crate) fn unrecorded() -> Term {
        Term { is_recorded: false, ..Term::new(Leadership::unrecorded()) }
    }

    /// Ends it for good.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Whether the master leads at this moment.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        now < self.leadership.valid_until()
    }

    /// What the master may do at this moment.
    pub(crate) fn authority(&self, now: Instant) -> Authority {
        if self.leads(now) {
            Authority::Leads
        } else if now < self.leadership.lasts_until() && !*self.ended.borrow() {
            Authority::Suspended
        } else {
            Authority::Over
        }
    }

    /// Completes once the term was ended or has expired, however often it is prolonged before.
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
