//! The state that all tasks of the owner thread share, for one term.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use mooncake_kv_events::Publisher;
use mooncake_types::{FairPlaces, MountSegment, Tick};
use tokio::sync::{Notify, watch};

use crate::config::Config;
use crate::http2::Http2Door;
use crate::kv_events;
use crate::leadership::{NotRecorded, Recorder};
use crate::long_frames::LongFrames;
use crate::notices::log;
use crate::owner::Owner;
use crate::reach::Reach;
use crate::request_poller::RequestPoller;
use crate::scan::Matcher;
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
    /// Wakes the timer when work becomes due earlier than `armed`.
    pub(crate) earlier: Notify,
    /// When the timer will fire.
    pub(crate) armed: Cell<Option<Tick>>,
    pub(crate) request_poller: RequestPoller,
    pub(crate) reach: Reach,
    pub(crate) task_waiters: TaskWaiters,
    pub(crate) matcher: Matcher,
    pub(crate) long_frames: Rc<LongFrames>,
    /// Peers that have connected and not greeted yet. For one too many, another of the address with the most is cut off.
    pub(crate) greeting: RefCell<FairPlaces<Rc<Notify>>>,
    /// Publishes where keys lie, if that is configured.
    kv_events: Option<Arc<Publisher>>,
    /// Where connections go that speak HTTP/2.
    pub(crate) http2: Option<Http2Door>,
}

impl Shell {
    pub(crate) fn new(
        config: Config,
        owner: Owner,
        recorder: Recorder,
        stopping: watch::Receiver<bool>,
        (kv_events, http2): (Option<Arc<Publisher>>, Option<Http2Door>),
    ) -> Shell {
        let request_poller = RequestPoller::new(config.busy_poll);
        let greeting = RefCell::new(FairPlaces::new((config.max_connections / 2).max(16)));
        Shell {
            config,
            owner: RefCell::new(owner),
            recorder,
            stopping,
            earlier: Notify::new(),
            armed: Cell::new(None),
            request_poller,
            reach: Reach::default(),
            task_waiters: TaskWaiters::default(),
            matcher: Matcher::default(),
            long_frames: Rc::default(),
            greeting,
            kv_events,
            http2,
        }
    }

    /// Passes on the effects of the state machine and rearms the timer. Called after each use of the state machine.
    pub(crate) fn rearm(&self) {
        self.pass_on_effects();
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

    /// Passes on the effects of the state machine.
    pub(crate) fn pass_on_effects(&self) {
        self.note_changes();
        self.log_notices();
        self.tell_task_waiters();
        self.publish_events();
    }

    /// Has the changes written that the state machine wants to be durable.
    fn note_changes(&self) {
        let changes = self.owner.borrow_mut().take_changes();
        if !changes.is_empty() {
            self.recorder.note(changes);
        }
    }

    /// Logs what the state machine did on its own.
    fn log_notices(&self) {
        for notice in self.owner.borrow_mut().take_notices() {
            log(&notice);
        }
    }

    /// Wakes the requests of clients that have new tasks.
    fn tell_task_waiters(&self) {
        for client in self.owner.borrow_mut().take_clients_with_new_tasks() {
            self.task_waiters.tell(client);
        }
    }

    /// Tells subscribers which keys have changed their tiers.
    fn publish_events(&self) {
        if let Some(publisher) = &self.kv_events {
            let changed = self.owner.borrow_mut().take_key_events();
            if !changed.is_empty() {
                publisher.publish(kv_events::events(changed));
            }
        }
    }

    /// Has the changes written that must be durable before a mount.
    pub(crate) async fn prepare(&self, mount: &MountSegment<'_>) -> Result<(), NotRecorded> {
        let changes = self.owner.borrow().changes_before(mount);
        if changes.is_empty() {
            return Ok(());
        }
        self.recorder.record(changes.clone()).await?;
        self.owner.borrow_mut().handle_recorded(&changes);
        Ok(())
    }

    /// Whether the term has ended, or the master stops.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Completes when the term ends.
    pub(crate) async fn stopped(&self) {
        // An error means that the sender is gone, and with it the master.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }
}
