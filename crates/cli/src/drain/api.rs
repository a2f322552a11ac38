//! A client of the masters' HTTP interface for drain jobs.

use mooncake_http::admin::AdminRequest;
use mooncake_types::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::args::DrainArgs;
use crate::admin_masters::{ApiError, Masters, ask, encoded};

/// The answer to the creation or cancelation of a job.
#[derive(Debug, Deserialize)]
struct Acknowledged {
    job_id: String,
}

/// All jobs that a master knows.
#[derive(Debug, Deserialize)]
struct Jobs {
    jobs: Vec<Progress>,
}

/// The running drain jobs of the leader with this admin server. Masters of earlier releases list none.
pub(crate) fn running(address: &str) -> Result<Vec<Progress>, ApiError> {
    let asked =
        AdminRequest { method: "GET", path: "/api/v1/drain_jobs", ..AdminRequest::default() };
    match ask::<Jobs>(address, &asked) {
        Ok(all) => Ok(all.jobs.into_iter().filter(|job| !job.has_ended()).collect()),
        Err(ApiError::Refused { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Progress {
    #[serde(default)]
    pub(crate) job_id: String,
    pub(super) status_name: String,
    pub(crate) segments: Vec<String>,
    pub(super) succeeded_units: u64,
    pub(super) failed_units: u64,
    pub(super) blocked_units: u64,
    pub(super) active_units: u64,
    pub(super) migrated_bytes: u64,
    pub(super) message: String,
    #[serde(default)]
    pub(super) released_units: u64,
    #[serde(default)]
    pub(super) remaining_units: u64,
}

impl Progress {
    /// The job as JSON.
    pub(crate) fn json(&self) -> Value {
        json!({
            "job": self.job_id, "status": self.status_name, "segments": self.segments, "message": self.message,
            "moved": self.moved_units(), "moved_bytes": self.migrated_bytes, "left": self.remaining_units,
            "on_their_way": self.active_units, "waiting": self.blocked_units, "failed": self.failed_units,
            "let_go": self.released_units,
        })
    }

    /// Objects that lie elsewhere now.
    pub(super) fn moved_units(&self) -> u64 {
        self.succeeded_units.saturating_sub(self.released_units)
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.status_name, "SUCCEEDED" | "FAILED" | "CANCELED")
    }
}

/// A master's answer about all segments with one name.
#[derive(Debug, Deserialize)]
struct SegmentStatus {
    status_name: String,
}

impl Masters {
    /// Creates a job, and returns its id.
    pub(super) fn create(&mut self, args: &DrainArgs) -> Result<String, ApiError> {
        let body = json!({
            "segments": args.segments,
            "target_segments": args.target_segments,
            "max_concurrency": args.max_concurrency,
        });
        let created = self.ask::<Acknowledged>("POST", "/api/v1/drain_jobs", &body.to_string());
        let unknown = || format!("no segment is called {}", args.segments.join(" or "));
        created
            .map(|created| created.job_id)
            .map_err(|error| error.explained(ErrorCode::SegmentNotFound, unknown))
    }

    pub(super) fn query(&mut self, job: &str) -> Result<Progress, ApiError> {
        self.ask("GET", &format!("/api/v1/drain_jobs/query?job_id={}", plain(job)?), "")
    }

    /// The last job over all of these segments, at least one, and whether it runs. `None` if there is no such job.
    pub(super) fn job_of(&mut self, segments: &[String]) -> Option<(String, bool)> {
        if segments.is_empty() {
            return None;
        }
        let all: Jobs = self.ask("GET", "/api/v1/drain_jobs", "").ok()?;
        let drains_all = |job: &&Progress| segments.iter().all(|name| job.segments.contains(name));
        let last = all.jobs.iter().rev().find(drains_all)?;
        Some((last.job_id.clone(), !last.has_ended()))
    }

    /// The running job that drains all of these segments, if there is one.
    pub(super) fn running_job_of(&mut self, segments: &[String]) -> Option<String> {
        self.job_of(segments).filter(|(_, runs)| *runs).map(|(job, _)| job)
    }

    /// Whether all segments with this name are empty and take no puts.
    pub(super) fn is_drained(&mut self, name: &str) -> Result<bool, ApiError> {
        let path = format!("/api/v1/segments/status?segment={}", encoded(name));
        let status: SegmentStatus = self.ask("GET", &path, "")?;
        Ok(status.status_name == "DRAINED")
    }

    /// Has all segments with this name take puts again.
    pub(super) fn undrain(&mut self, name: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/segments/undrain?segment={}", encoded(name));
        let unknown = || format!("no segment is called {name}");
        self.ask::<serde_json::Value>("POST", &path, "")
            .map(|_| ())
            .map_err(|error| error.explained(ErrorCode::SegmentNotFound, unknown))
    }

    pub(super) fn cancel(&mut self, job: &str) -> Result<(), ApiError> {
        let path = format!("/api/v1/drain_jobs/cancel?job_id={}", plain(job)?);
        let ended = || format!("job {job} has ended already");
        self.ask::<Acknowledged>("POST", &path, "")
            .map(|_| ())
            .map_err(|error| error.explained(ErrorCode::UnavailableInCurrentStatus, ended))
    }
}

/// The id of a job for a path. Ids consist of digits and hyphens; anything else is refused.
fn plain(job: &str) -> Result<&str, ApiError> {
    match job.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        true => Ok(job),
        false => Err(ApiError::Strange(format!("'{job}' is not the id of a drain job"))),
    }
}
