use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info};

/// A caller that waits longer than this for a change gets an error. Nodes wait three seconds for a reply.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 2_000 });

/// Time between two complaints.
const COMPLAINTS: Duration = Duration::from_secs(10);

/// How long pending changes of the membership record have not been written: writes fail, or the disk or the
/// coordinator does not answer. Clones share one state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness(Arc<Mutex<Option<Instant>>>);

impl Lateness {
    /// Notes that a change is pending.
    pub(super) fn begin(&self) {
        self.since(|since| _ = since.get_or_insert_with(Instant::now));
    }

    /// Notes that all changes were written.
    pub(super) fn end(&self) {
        self.since(|since| *since = None);
    }

    /// How long changes have been pending; zero if none are.
    pub(crate) fn lasts(&self) -> Duration {
        self.since(|since| since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Whether callers should not wait for pending changes.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.lasts() > PATIENCE
    }

    fn since<T>(&self, look: impl FnOnce(&mut Option<Instant>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Complains in the log while changes are late. Runs until it is dropped.
    pub(crate) async fn complain(self) {
        let mut complained: Option<Instant> = None;
        loop {
            tokio::time::sleep(PATIENCE / 2).await;
            let lasts = self.lasts();
            if lasts <= PATIENCE {
                if complained.take().is_some() {
                    info!("the membership record is up to date again");
                }
            } else if complained.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
                complained = Some(Instant::now());
                error!(
                    for_ms = lasts.as_millis(),
                    "the membership record cannot be written: until its disk or coordinator answers, no segment can join \
                     and none that is lost is given up"
                );
            }
        }
    }
}
