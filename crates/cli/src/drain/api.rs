//! The master's HTTP interface of drain jobs, as a client of it.

use serde::Deserialize;
use serde_json::json;

use super::args::DrainArgs;
use crate::admin::{self, AdminError};

/// A job that was created or canceled.
#[derive(Debug, Deserialize)]
struct Acknowledged {
    job_id: String,
}

/// How far a job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Progress {
    pub(super) status_name: String,
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
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.status_name, "SUCCEEDED" | "FAILED" | "CANCELED")
    }
}

#[derive(Deserialize)]
struct Refusal {
    error_message: String,
}

/// Creates a job and gives its id.
pub(super) fn create(args: &DrainArgs) -> Result<String, String> {
    let body = json!({
        "segments": args.segments,
        "target_segments": args.target_segments,
        "max_concurrency": args.max_concurrency,
    });
    let created: Acknowledged =
        ask(&args.master_http, "POST", "/api/v1/drain_jobs", &body.to_string())?;
    Ok(created.job_id)
}

pub(super) fn query(address: &str, job: &str) -> Result<Progress, String> {
    ask(address, "GET", &format!("/api/v1/drain_jobs/query?job_id={}", plain(job)?), "")
}

pub(super) fn cancel(address: &str, job: &str) -> Result<(), String> {
    let path = format!("/api/v1/drain_jobs/cancel?job_id={}", plain(job)?);
    ask::<Acknowledged>(address, "POST", &path, "").map(|_| ())
}

/// Ids are digits and hyphens; nothing else goes into a path.
fn plain(job: &str) -> Result<&str, String> {
    match job.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        true => Ok(job),
        false => Err(format!("'{job}' is not the id of a drain job")),
    }
}

fn ask<T: for<'de> Deserialize<'de>>(
    address: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Result<T, String> {
    let (status, text) =
        admin::call(address, method, path, body).map_err(|error: AdminError| error.to_string())?;
    if status != 200 {
        let refusal: Option<Refusal> = serde_json::from_str(&text).ok();
        let why = refusal.map_or_else(|| format!("HTTP status {status}"), |it| it.error_message);
        return Err(format!("the master refused: {why}"));
    }
    serde_json::from_str(&text)
        .map_err(|error| format!("http://{address}{path} answered what is not expected: {error}"))
}
