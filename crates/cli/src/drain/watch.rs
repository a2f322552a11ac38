//! Follows a job until it ends, also across changes of the leader.

use std::time::{Duration, Instant};

use mooncake_types::ErrorCode;

use super::api::Progress;
use super::args::DrainArgs;
use super::line;
use crate::admin_masters::{ApiError, Masters};
use crate::exit::complain;
use crate::stop_signal::SecondSignal;

/// Time between two queries of the job.
const PACE: Duration = Duration::from_millis(200);
/// Least time between two progress lines while the job's status is the same.
const PERIOD: Duration = Duration::from_secs(2);
/// How long no leader may answer, or may not know the segments. A new leader is elected within a lease, and nodes then
/// mount there.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why this program follows a job no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ended,
    TimeIsOver,
    Interrupted,
}

/// A job that this program follows.
pub(super) struct Watch<'a> {
    masters: &'a mut Masters,
    args: &'a DrainArgs,
    interrupt: SecondSignal,
    pub(super) job: String,
    /// The progress that was printed last, and when.
    told: Option<(Instant, Progress)>,
    pub(super) last: Progress,
}

impl<'a> Watch<'a> {
    pub(super) fn of(
        masters: &'a mut Masters,
        args: &'a DrainArgs,
        job: String,
        interrupt: SecondSignal,
    ) -> Watch<'a> {
        let last = Progress { status_name: "CREATED".to_owned(), ..Progress::default() };
        Watch { masters, args, interrupt, job, told: None, last }
    }

    /// Prints progress until the job has ended, the time is over, or a signal comes.
    pub(super) fn run(&mut self) -> Result<Outcome, String> {
        let limit = Duration::from_secs(self.args.timeout_sec);
        let begun = Instant::now();
        let mut answered = begun;
        loop {
            match self.look() {
                Ok(()) => answered = Instant::now(),
                Err(ApiError::Absent(_)) if answered.elapsed() < PATIENCE => {}
                // A new leader does not know the segments until their nodes have mounted there.
                Err(error) if self.is_for_now(&error) && answered.elapsed() < PATIENCE => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.last.has_ended() {
                return Ok(Outcome::Ended);
            } else if self.interrupt.has_come() {
                return Ok(Outcome::Interrupted);
            } else if !limit.is_zero() && begun.elapsed() >= limit {
                return Ok(Outcome::TimeIsOver);
            }
            std::thread::sleep(PACE);
        }
    }

    /// Whether a later answer may be another one: a new leader does not know all segments at once.
    fn is_for_now(&self, error: &ApiError) -> bool {
        let was_known = !self.last.segments.is_empty();
        error.is(ErrorCode::SegmentNotFound)
            || error.is(ErrorCode::UnavailableInCurrentStatus)
            || error.is(ErrorCode::JobNotFound) && was_known
    }

    fn look(&mut self) -> Result<(), ApiError> {
        match self.masters.query(&self.job) {
            Ok(now) => self.tell(now),
            Err(error) if error.is(ErrorCode::JobNotFound) => self.begin_anew(error)?,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn tell(&mut self, now: Progress) {
        let is_new = self.told.as_ref().is_none_or(|(at, before)| {
            at.elapsed() >= PERIOD && *before != now || before.status_name != now.status_name
        });
        // The final result is printed by the caller.
        if is_new && !now.has_ended() {
            complain(format_args!("{}\n", line(&now)));
            self.told = Some((Instant::now(), now.clone()));
        }
        self.last = now;
    }

    /// The leader does not know the job, so it is a new leader. Orders the same drain from it, or follows the job that
    /// it has begun by itself.
    fn begin_anew(&mut self, unknown: ApiError) -> Result<(), ApiError> {
        let next = match self.args.segments.is_empty() {
            // The order of a job that another program created is unknown, but the new leader drains its segments.
            true => self.masters.job_of(&self.last.segments).ok_or(unknown)?.0,
            false => match self.masters.create(self.args) {
                Err(error) if error.is(ErrorCode::UnavailableInCurrentStatus) => {
                    self.masters.running_job_of(&self.args.segments).ok_or(error)?
                }
                created => created?,
            },
        };
        let before = std::mem::replace(&mut self.job, next);
        let now = &self.job;
        complain(format_args!(
            "another master leads, and knows nothing of drain job {before}\ndrain job {now}\n"
        ));
        self.told = None;
        Ok(())
    }
}
