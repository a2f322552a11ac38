use std::time::{Duration, Instant};

use mooncake_ops::{Retry, RetryPolicy};
use mooncake_types::{DrainReport, DrainStatus, ErrorCode, Reply, Request, SegmentId};

use super::Store;
use super::closed::CLOSED;

/// Time between two questions to the master.
const PACE: Duration = Duration::from_millis(50);

impl Store {
    /// Has the objects that lie in this store's segments moved to other nodes, as far as these have room without evicting
    /// anything, and waits for that. The store goes on serving; nothing new is put into its segments. Named segments
    /// ([`crate::StoreConfig::segment_path`]) keep what they hold: it waits for the next process with their file.
    ///
    /// `goes_on` is told how far it is, about twenty times a second, and ends the wait by saying no. The report that is
    /// returned is the last one: its status is [`DrainStatus::Succeeded`] if nothing is left,
    /// [`DrainStatus::Failed`] if something could not be moved and the segments take puts again, and
    /// [`DrainStatus::Running`] if `patience` or `goes_on` ended the wait.
    ///
    /// # Errors
    /// [`ErrorCode::UnavailableInCurrentStatus`] if the store is closed, also meanwhile; otherwise what the master answers, or that it gave
    /// no answer for three seconds.
    pub fn drain(
        &self,
        patience: Duration,
        mut goes_on: impl FnMut(&DrainReport) -> bool,
    ) -> Result<DrainReport, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let (begun, mut retry) = (Instant::now(), Retry::new(RetryPolicy::DRAIN));
        retry.reset(session.clock.now());
        let mut last = DrainReport::default();
        loop {
            // One that started empty meanwhile has another id.
            let lent = session.host.segments();
            let going = lent.iter().filter(|segment| !segment.is_named());
            let segments: Vec<SegmentId> = going.map(|segment| segment.id()).collect();
            if segments.is_empty() {
                return Ok(DrainReport { status: DrainStatus::Succeeded, ..last });
            }
            let failure = match session.pool.call(&Request::DrainSegments { segments }) {
                Ok(Reply::Draining(report)) => {
                    last = *report;
                    retry.reset(session.clock.now());
                    None
                }
                // A new leader has yet to learn what there is.
                Ok(Reply::Refused(code)) => Some(code),
                Ok(_) => return Err(ErrorCode::InternalError),
                Err(error) => Some(error.code()),
            };
            if let Some(code) = failure
                && retry.again_at(session.clock.now()).is_none()
            {
                return Err(code);
            }
            if self.session().is_none() {
                return Err(CLOSED);
            }
            if last.status.has_ended() || begun.elapsed() >= patience || !goes_on(&last) {
                return Ok(last);
            }
            std::thread::sleep(PACE);
        }
    }
}
