use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::{error, info};

/// Who waits for a change longer than this is told that it cannot be made now. Nodes wait three seconds for an answer.
pub(super) const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 2_000 });

/// Between two complaints.
const COMPLAINTS: Duration = Duration::from_secs(10);

/// For how long what is to be in the membership record has not been written: because that fails, or because the disk or
/// the coordinator says nothing at all. Clones tell of the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness(Arc<Mutex<Option<Instant>>>);

impl Lateness {
    /// Something is to be written, or still is.
    pub(super) fn begin(&self) {
        self.since(|since| _ = since.get_or_insert_with(Instant::now));
    }

    /// All of it was written.
    pub(super) fn end(&self) {
        self.since(|since| *since = None);
    }

    /// How long it has been tried; zero if there is nothing to write.
    pub(crate) fn lasts(&self) -> Duration {
        self.since(|since| since.map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// Whether it is no use to wait for anything that is to be written.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.lasts() > PATIENCE
    }

    fn since<T>(&self, look: impl FnOnce(&mut Option<Instant>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Complains in the log, again and again, for as long as it lasts. Runs until it is dropped.
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
