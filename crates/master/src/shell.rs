//! What all tasks of the owner thread share, for one term.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use mooncake_kv_events::Publisher;
use mooncake_types::{MountSegment, Tick};
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::kv_events;
use crate::leadership::{NotRecorded, Recorder};
use crate::lookout::Lookout;
use crate::notices::log;
use crate::owner::Owner;
use crate::reach::Reach;
use crate::task_waiters::TaskWaiters;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) config: Config,
    /// Borrowed only between two awaits.
    pub(crate) owner: RefCell<Owner>,
    pub(crate) recorder: Recorder,
    /// Becomes true once, when the term ends or the master stops.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Wakes the timer when something became due earlier than it knows.
    pub(crate) earlier: Notify,
    /// What the timer waits for.
    pub(crate) armed: Cell<Option<Tick>>,
    pub(crate) lookout: Lookout,
    pub(crate) reach: Reach,
    pub(crate) task_waiters: TaskWaiters,
    /// Who is told which keys are where.
    kv_events: Option<Arc<Publisher>>,
}

impl Shell {
    pub(crate) fn new(
        config: Config,
        owner: Owner,
        recorder: Recorder,
        (stopping, kv_events): (watch::Receiver<bool>, Option<Arc<Publisher>>),
    ) -> Shell {
        let lookout = Lookout::new(config.busy_poll);
        Shell {
            config,
            owner: RefCell::new(owner),
            recorder,
            stopping,
            earlier: Notify::new(),
            armed: Cell::new(None),
            lookout,
            reach: Reach::default(),
            task_waiters: TaskWaiters::default(),
            kv_events,
        }
    }

    /// To be called after the state machine was used.
    pub(crate) fn rearm(&self) {
        self.note_changes();
        self.log_notices();
        self.tell_task_waiters();
        self.publish_events();
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

    /// Has what the state machine wants to be durable written down.
    pub(crate) fn note_changes(&self) {
        let changes = self.owner.borrow_mut().take_changes();
        if !changes.is_empty() {
            self.recorder.note(changes);
        }
    }

    /// Logs what the state machine did by itself.
    pub(crate) fn log_notices(&self) {
        for notice in self.owner.borrow_mut().take_notices() {
            log(&notice);
        }
    }

    /// Tells clients that wait for tasks that there are some.
    fn tell_task_waiters(&self) {
        for client in self.owner.borrow_mut().take_clients_with_new_tasks() {
            self.task_waiters.tell(client);
        }
    }

    /// Tells subscribers which keys are elsewhere than before.
    fn publish_events(&self) {
        if let Some(publisher) = &self.kv_events {
            let changed = self.owner.borrow_mut().take_key_events();
            if !changed.is_empty() {
                publisher.publish(kv_events::events(changed));
            }
        }
    }

    /// Has a segment written down that is about to be mounted, if it must be.
    pub(crate) async fn prepare(&self, mount: &MountSegment<'_>) -> Result<(), NotRecorded> {
        let changes = self.owner.borrow().changes_before(mount);
        if changes.is_empty() {
            return Ok(());
        }
        self.recorder.record(changes.clone()).await?;
        self.owner.borrow_mut().handle_recorded(&changes);
        Ok(())
    }

    /// Completes when the term ends.
    pub(crate) async fn stopped(&self) {
        // An error means that the sender is gone, and with it the master.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }
}
