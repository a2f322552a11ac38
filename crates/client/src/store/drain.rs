use std::time::{Duration, Instant};

use mooncake_ops::{Retry, RetryPolicy};
use mooncake_types::{DrainReport, DrainStatus, ErrorCode, Reply, Request, SegmentId};

use super::Store;
use super::closed::CLOSED;

/// Time between two requests to the master.
const PACE: Duration = Duration::from_millis(50);

impl Store {
    /// Has the objects in this store's segments moved to other nodes, as far as these have room without evicting
    /// anything, and waits for that. The store goes on serving, but its segments get no new objects. Named segments
    /// ([`crate::StoreConfig::segment_path`]) keep their objects for the next process with their file.
    ///
    /// Calls `goes_on` with the progress, about twenty times a second; false ends the wait. Returns the last report.
    /// Its status is
    ///
    /// - [`DrainStatus::Succeeded`] if nothing is left;
    /// - [`DrainStatus::Failed`] if something could not be moved, and the segments take puts again;
    /// - [`DrainStatus::Running`] if `patience` or `goes_on` ended the wait.
    ///
    /// # Errors
    /// [`ErrorCode::UnavailableInCurrentStatus`] if the store is closed, or becomes so meanwhile. Otherwise the code
    /// of the master, or of the last attempt after three seconds without an answer.
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
            // A segment that started empty meanwhile has another id.
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
                // A new leader may have to learn first what the nodes hold.
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
