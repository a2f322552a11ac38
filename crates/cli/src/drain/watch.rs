//! How a job goes on until its end, under whoever leads.

use std::time::{Duration, Instant};

use mooncake_types::ErrorCode;

use super::api::{ApiError, Masters, Progress};
use super::args::DrainArgs;
use super::line;
use crate::exit::complain;

/// Time between two questions.
const PACE: Duration = Duration::from_millis(200);
/// Time between two lines about a job about which there is nothing new.
const PERIOD: Duration = Duration::from_secs(2);
/// How long no master that leads may answer, or a new one not know the segments: a lease, and the nodes' way to it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A job that is watched.
pub(super) struct Watch<'a> {
    masters: &'a mut Masters,
    args: &'a DrainArgs,
    pub(super) job: String,
    /// What was told of it, and when.
    told: Option<(Instant, Progress)>,
    pub(super) last: Progress,
}

impl<'a> Watch<'a> {
    pub(super) fn of(masters: &'a mut Masters, args: &'a DrainArgs, job: String) -> Watch<'a> {
        let last = Progress { status_name: "CREATED".to_owned(), ..Progress::default() };
        Watch { masters, args, job, told: None, last }
    }

    /// Tells of the job until it has ended, or the time is over.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let limit = Duration::from_secs(self.args.timeout_sec);
        let begun = Instant::now();
        let mut answered = begun;
        loop {
            match self.look() {
                Ok(()) => answered = Instant::now(),
                Err(ApiError::Absent(_)) if answered.elapsed() < PATIENCE => {}
                // A new leader has yet to hear of the segments.
                Err(error) if is_for_now(&error) && answered.elapsed() < PATIENCE => {}
                Err(error) => return Err(error.to_string()),
            }
            if self.last.has_ended() || !limit.is_zero() && begun.elapsed() >= limit {
                return Ok(());
            }
            std::thread::sleep(PACE);
        }
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
        // The result says how it ended.
        if is_new && !now.has_ended() {
            complain(format_args!("{}\n", line(&now)));
            self.told = Some((Instant::now(), now.clone()));
        }
        self.last = now;
    }

    /// The master that led is gone, and the job with it: the one that leads now gets the same order.
    fn begin_anew(&mut self, unknown: ApiError) -> Result<(), ApiError> {
        if self.args.segments.is_empty() {
            // What was wanted of a job that somebody else created is not known.
            let segments = self.last.segments.join(" ");
            return Err(match segments.is_empty() {
                true => unknown,
                false => {
                    ApiError::Strange(format!("{unknown}; to go on: mooncake drain {segments}"))
                }
            });
        }
        let next = self.masters.create(self.args)?;
        let before = std::mem::replace(&mut self.job, next);
        let now = &self.job;
        complain(format_args!(
            "another master leads, and knows nothing of drain job {before}\ndrain job {now}\n"
        ));
        self.told = None;
        Ok(())
    }
}

fn is_for_now(error: &ApiError) -> bool {
    error.is(ErrorCode::SegmentNotFound) || error.is(ErrorCode::UnavailableInCurrentStatus)
}
