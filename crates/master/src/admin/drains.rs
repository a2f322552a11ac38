//! Drain jobs: segments are emptied so that their nodes can leave.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use mooncake_types::limits::DEFAULT_DRAIN_CONCURRENCY;
use mooncake_types::{DrainId, DrainOrder, DrainReport, ErrorCode};
use serde::{Deserialize, Serialize};
use tracing::info;

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;
use crate::drain_log;

/// The body of `POST /api/v1/drain_jobs`. Other fields are ignored.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct DrainRequest {
    segments: Vec<String>,
    target_segments: Vec<String>,
    max_concurrency: u32,
}

impl Default for DrainRequest {
    fn default() -> Self {
        let (segments, target_segments) = (Vec::new(), Vec::new());
        Self { segments, target_segments, max_concurrency: DEFAULT_DRAIN_CONCURRENCY }
    }
}

/// The reply to the creation or cancelation of a job.
#[derive(Serialize)]
pub(super) struct Acknowledged {
    success: bool,
    job_id: String,
    status: &'static str,
    error_code: i32,
    error_message: &'static str,
}

impl Acknowledged {
    fn new(id: DrainId, status: &'static str) -> Acknowledged {
        let (job_id, error_message) = (id.to_string(), "");
        Acknowledged { success: true, job_id, status, error_code: 0, error_message }
    }
}

/// How far a job is. The fields have the names of the C++ store; the last three are new.
#[derive(Serialize)]
pub(super) struct DrainAnswer {
    success: bool,
    job_id: String,
    r#type: i32,
    type_name: &'static str,
    status: i32,
    status_name: &'static str,
    created_at_ms_epoch: u64,
    last_updated_at_ms_epoch: u64,
    segments: Vec<String>,
    succeeded_units: u64,
    failed_units: u64,
    blocked_units: u64,
    active_units: u64,
    migrated_bytes: u64,
    message: String,
    error_code: i32,
    error_message: &'static str,
    /// Replicas among the succeeded units that were dropped, because another one stays and no target had room.
    released_units: u64,
    remaining_units: u64,
    remaining_bytes: u64,
}

impl From<DrainReport> for DrainAnswer {
    fn from(report: DrainReport) -> DrainAnswer {
        let stall = drain_log::stall(&report);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = |ms: u64| {
            let at = since_epoch.saturating_sub(Duration::from_millis(ms));
            u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
        };
        DrainAnswer {
            success: true,
            job_id: report.id.to_string(),
            r#type: 0,
            type_name: "DRAIN",
            status: report.status as i32,
            status_name: report.status.name(),
            created_at_ms_epoch: ago(report.created_ms_ago),
            last_updated_at_ms_epoch: ago(report.updated_ms_ago),
            segments: report.segments,
            succeeded_units: report.moved_units + report.released_units,
            failed_units: report.failed_units,
            blocked_units: report.blocked_units,
            active_units: report.active_units,
            migrated_bytes: report.moved_bytes,
            message: stall.unwrap_or(report.message),
            error_code: 0,
            error_message: "",
            released_units: report.released_units,
            remaining_units: report.remaining_units,
            remaining_bytes: report.remaining_bytes,
        }
    }
}

fn refused(code: ErrorCode) -> Failure {
    match code {
        ErrorCode::JobNotFound => Failure::not_found(
            code,
            "JOB_NOT_FOUND: the master that leads now knows of no such drain job; jobs end with the leader that took them",
        ),
        ErrorCode::SegmentNotFound => Failure::not_found(code, code.name()),
        ErrorCode::InvalidParams => Failure::bad_request(code.name()),
        ErrorCode::UnavailableInCurrentStatus => Failure::conflict(code, code.name()),
        _ => Failure::internal(code, code.name()),
    }
}

fn job_id(parameters: &Parameters) -> Result<DrainId, Failure> {
    let named = parameters.optional("job_id").and_then(|text| text.parse().ok());
    named.ok_or_else(|| Failure::bad_request("Missing or invalid job_id"))
}

/// `POST /api/v1/drain_jobs`: begins to move what lies in segments to others, so that their nodes can be taken away.
pub(super) async fn create(
    Extract(state): Extract<AdminState>,
    body: Bytes,
) -> Result<Json<Acknowledged>, Failure> {
    let wanted: DrainRequest = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(format!("Invalid JSON body: {error}")))?;
    let order = DrainOrder {
        segments: wanted.segments,
        targets: wanted.target_segments,
        max_concurrency: wanted.max_concurrency,
    };
    let id = state.asker.ask(move |owner| owner.start_drain(&order)).await?.map_err(refused)?;
    Ok(Json(Acknowledged::new(id, "CREATED")))
}

/// `GET /api/v1/drain_jobs/query?job_id=J`: how far a job is.
pub(super) async fn query(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<DrainAnswer>, Failure> {
    let id = job_id(&parameters)?;
    let report = state.asker.ask(move |owner| owner.meta.drain(id)).await?;
    report.map(|report| Json(report.into())).ok_or_else(|| refused(ErrorCode::JobNotFound))
}

/// The reply to a request for all jobs.
#[derive(Serialize)]
pub(super) struct DrainList {
    success: bool,
    jobs: Vec<DrainAnswer>,
}

/// `GET /api/v1/drain_jobs`: all jobs that this leader knows, the oldest first.
pub(super) async fn list(Extract(state): Extract<AdminState>) -> Result<Json<DrainList>, Failure> {
    let reports = state.asker.ask(|owner| owner.meta.drain_jobs()).await?;
    let jobs = reports.into_iter().map(DrainAnswer::from).collect();
    Ok(Json(DrainList { success: true, jobs }))
}

/// The reply to the request to undrain a segment.
#[derive(Serialize)]
pub(super) struct Undrained {
    success: bool,
    segment: String,
    error_code: i32,
    error_message: &'static str,
}

/// `POST /api/v1/segments/undrain?segment=S`: all segments of the name take puts again.
pub(super) async fn undrain(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Undrained>, Failure> {
    let segment = parameters.required("segment")?.to_owned();
    let name = segment.clone();
    let undrained = state.asker.ask(move |owner| {
        let undrained = owner.undrain(&name);
        undrained
            .inspect(|()| info!(segment = name, "a segment takes puts again, as an operator asked"))
    });
    undrained.await?.map_err(refused)?;
    Ok(Json(Undrained { success: true, segment, error_code: 0, error_message: "" }))
}

/// `POST /api/v1/drain_jobs/cancel?job_id=J`: cancels a job. Moves under way are completed.
pub(super) async fn cancel(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Acknowledged>, Failure> {
    let id = job_id(&parameters)?;
    state.asker.ask(move |owner| owner.cancel_drain(id)).await?.map_err(refused)?;
    Ok(Json(Acknowledged::new(id, "CANCELED")))
}
