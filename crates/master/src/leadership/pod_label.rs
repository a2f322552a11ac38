//! Labels the pod of this master while it leads. It has its own thread, since the API server may be slow or
//! unreachable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mooncake_ha::Pod;
use tokio::sync::watch;
use tracing::{info, warn};

use super::role_status::{Role, RoleStatus};

/// How often the thread looks at the role.
const LOOK: Duration = Duration::from_millis(200);

/// The pause after the API server failed.
const PAUSE: Duration = Duration::from_secs(2);

/// The thread that keeps the label. Dropping it removes the label.
#[derive(Debug)]
pub(crate) struct PodLabel {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PodLabel {
    /// Begins without the label: an earlier process of this pod may have left it.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(pod: Pod, status: watch::Receiver<RoleStatus>) -> io::Result<PodLabel> {
        let stopping = Arc::<AtomicBool>::default();
        let labeler = Labeler { pod, status, stopping: Arc::clone(&stopping), shown: None };
        let thread = thread::Builder::new().name("pod-label".to_owned());
        let thread = thread.spawn(move || labeler.run())?;
        Ok(PodLabel { stopping, thread: Some(thread) })
    }
}

impl Drop for PodLabel {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let Some(thread) = self.thread.take() else { return };
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that labels the pod panicked");
        }
    }
}

struct Labeler {
    pod: Pod,
    status: watch::Receiver<RoleStatus>,
    stopping: Arc<AtomicBool>,
    /// What the label says; `None` if that is not known.
    shown: Option<bool>,
}

impl Labeler {
    fn run(mut self) {
        let mut has_warned = false;
        loop {
            // Read first, so that the last round removes the label.
            let is_last = self.stopping.load(Ordering::SeqCst);
            let leads = !is_last && self.status.borrow().role == Role::Leader;
            let mut pause = LOOK;
            if self.shown != Some(leads) {
                match self.pod.show_leader(leads) {
                    Ok(()) => {
                        info!(pod = ?self.pod, leads, "the pod's label says whether this master leads");
                        (self.shown, has_warned) = (Some(leads), false);
                    }
                    Err(error) => {
                        if !has_warned {
                            warn!(%error, "the pod is not labelled; it is tried again");
                        }
                        (self.shown, has_warned, pause) = (None, true, PAUSE);
                    }
                }
            }
            if is_last {
                return;
            }
            thread::park_timeout(pause);
        }
    }
}
