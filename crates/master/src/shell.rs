//! What all tasks of the owner thread share.

use std::cell::{Cell, RefCell};

use mooncake_types::Tick;
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::lookout::Lookout;
use crate::owner::Owner;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) config: Config,
    /// Borrowed only between two awaits.
    pub(crate) owner: RefCell<Owner>,
    /// Becomes true once.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Wakes the timer when something became due earlier than it knows.
    pub(crate) earlier: Notify,
    /// What the timer waits for.
    pub(crate) armed: Cell<Option<Tick>>,
    pub(crate) lookout: Lookout,
}

impl Shell {
    pub(crate) fn new(config: Config, owner: Owner, stopping: watch::Receiver<bool>) -> Shell {
        let lookout = Lookout::new(config.busy_poll);
        Shell {
            config,
            owner: RefCell::new(owner),
            stopping,
            earlier: Notify::new(),
            armed: Cell::new(None),
            lookout,
        }
    }

    /// To be called after the state machine was used.
    pub(crate) fn rearm(&self) {
        let due = self.owner.borrow().due();
        let is_earlier = match (due, self.armed.get()) {
            (Some(due), Some(armed)) => due < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_earlier {
            self.earlier.notify_one();
        }
    }

    /// Completes when the master stops.
    pub(crate) async fn stopped(&self) {
        // An error means that the sender is gone, and with it the master.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }
}
