//! A client of the masters' HTTP interface for drain jobs.

use mooncake_http::admin::{self, AdminRequest};
use mooncake_types::ErrorCode;
use serde::Deserialize;
use serde_json::json;

use super::args::DrainArgs;

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
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.status_name, "SUCCEEDED" | "FAILED" | "CANCELED")
    }
}

/// A master's answer about all segments with one name.
#[derive(Debug, Deserialize)]
struct SegmentStatus {
    status_name: String,
}

/// Why a request to a master failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApiError {
    /// The master does not answer, or does not lead.
    #[error("{0}")]
    Absent(String),
    #[error("the master refused: {reason}")]
    Refused { code: Option<ErrorCode>, reason: String },
    /// The answer is not that of a master.
    #[error("{0}")]
    Strange(String),
}

impl ApiError {
    pub(super) fn is(&self, wanted: ErrorCode) -> bool {
        matches!(self, Self::Refused { code: Some(code), .. } if *code == wanted)
    }

    /// Replaces the reason of a refusal that has this code.
    fn explained(self, wanted: ErrorCode, meaning: impl FnOnce() -> String) -> Self {
        match self.is(wanted) {
            true => Self::Refused { code: Some(wanted), reason: meaning() },
            false => self,
        }
    }
}

#[derive(Deserialize)]
struct Refusal {
    error_code: i32,
    error_message: String,
}

/// The admin servers of all masters. One of the masters leads.
#[derive(Debug)]
pub(super) struct Masters {
    addresses: Vec<String>,
    /// The index of the server that answered last.
    current: usize,
    /// The token of the masters; empty if they have none.
    auth_token: String,
}

impl Masters {
    pub(super) fn at(addresses: &[String], auth_token: String) -> Masters {
        Masters { addresses: addresses.to_vec(), current: 0, auth_token }
    }

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

    /// Asks each master in turn until one leads and answers. Begins with the server that answered last.
    fn ask<T: for<'de> Deserialize<'de>>(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<T, ApiError> {
        let mut last = ApiError::Absent("no address of a master is given".to_owned());
        for _ in 0..self.addresses.len() {
            let asked = AdminRequest { method, path, body, auth_token: &self.auth_token };
            last = match ask(&self.addresses[self.current], &asked) {
                Err(error @ ApiError::Absent(_)) => error,
                answer => return answer,
            };
            self.current = (self.current + 1) % self.addresses.len();
        }
        Err(last)
    }
}

/// Percent-encodes a name for the query of a path.
fn encoded(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// The id of a job for a path. Ids consist of digits and hyphens; anything else is refused.
fn plain(job: &str) -> Result<&str, ApiError> {
    match job.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        true => Ok(job),
        false => Err(ApiError::Strange(format!("'{job}' is not the id of a drain job"))),
    }
}

fn ask<T: for<'de> Deserialize<'de>>(
    address: &str,
    asked: &AdminRequest<'_>,
) -> Result<T, ApiError> {
    let (status, text) =
        admin::call(address, asked).map_err(|error| ApiError::Absent(error.to_string()))?;
    match status {
        200 => serde_json::from_str(&text).map_err(|error| {
            let place = format!("http://{address}{}", asked.path);
            ApiError::Strange(format!("{place} answered what is not expected: {error}"))
        }),
        401 => Err(ApiError::Refused {
            code: None,
            reason: format!("{address} wants the token of the pool: give --auth_token_file"),
        }),
        503 => Err(ApiError::Absent(format!("the master at {address} does not lead"))),
        status => {
            let refusal = serde_json::from_str::<Refusal>(&text).ok();
            let code = refusal.as_ref().and_then(|it| ErrorCode::from_number(it.error_code));
            let reason = match refusal {
                Some(refusal) => refusal.error_message,
                // An RPC port answers with a text that names the admin server.
                None => format!("HTTP status {status}: {}", text.trim()),
            };
            Err(ApiError::Refused { code, reason })
        }
    }
}
