//! The pool's segments, as operators see them.

use axum::Json;
use axum::extract::State as Extract;
use mooncake_meta::SegmentReport;
use mooncake_types::{ClientId, ErrorCode, Medium, SegmentState};
use serde::Serialize;

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;

/// `GET /get_all_segments`: one name on each line; segments of one name share a line. Disks and segments out of sight
/// are left out.
pub(super) async fn get_all_segments(
    Extract(state): Extract<AdminState>,
) -> Result<String, Failure> {
    let mut reports = state.asker.segments().await?;
    reports.retain(|report| report.in_sight && report.medium == Medium::Memory);
    let mut names: Vec<&str> = reports.iter().map(|report| report.name.as_ref()).collect();
    names.dedup();
    Ok(names.iter().map(|name| format!("{name}\n")).collect())
}

#[derive(Serialize)]
pub(super) struct Details {
    total_segments: usize,
    segments: Vec<Detail>,
}

#[derive(Serialize)]
struct Detail {
    segment_name: String,
    segment_id: String,
    /// The first digits of its client's id: see [`ClientId::told`].
    client_id: String,
    base_address: &'static str,
    size_bytes: u64,
    size_human: String,
    te_endpoint: String,
    domains: Vec<String>,
    protocol: &'static str,
    medium: &'static str,
    status: &'static str,
    in_sight: bool,
    reachable: bool,
    allocator_used_bytes: u64,
    allocator_capacity_bytes: u64,
    allocator_usage_percent: f64,
}

impl From<&SegmentReport> for Detail {
    fn from(report: &SegmentReport) -> Detail {
        Detail {
            segment_name: report.name.to_string(),
            segment_id: report.id.to_string(),
            client_id: report.client.to_string()[..ClientId::TOLD_DIGITS].to_owned(),
            // Placements are offsets into the segment. Only its node knows where it is mapped.
            base_address: "0x0",
            size_bytes: report.capacity,
            size_human: format!("{} GiB", report.capacity as f64 / (1u64 << 30) as f64),
            te_endpoint: report.endpoint.to_string(),
            domains: report.domains.iter().map(ToString::to_string).collect(),
            protocol: "tcp",
            medium: medium_name(report.medium),
            status: state_name(report.state),
            in_sight: report.in_sight,
            reachable: report.is_reached,
            allocator_used_bytes: report.used,
            allocator_capacity_bytes: report.capacity,
            allocator_usage_percent: match report.capacity {
                0 => 0.0,
                capacity => report.used as f64 / capacity as f64 * 100.0,
            },
        }
    }
}

/// `GET /get_segments_detail`: each segment with its node, use, medium, failure domains and state, as JSON.
pub(super) async fn get_segments_detail(
    Extract(state): Extract<AdminState>,
) -> Result<Json<Details>, Failure> {
    let reports = state.asker.segments().await?;
    let segments: Vec<Detail> = reports.iter().map(Detail::from).collect();
    Ok(Json(Details { total_segments: segments.len(), segments }))
}

/// `GET /query_segment?segment=S`: used bytes and capacity of all segments of that name, and whether one is out of
/// sight.
pub(super) async fn query_segment(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<String, Failure> {
    let name = parameters.required("segment")?;
    let reports = named(&state, name).await?;
    let used: u64 = reports.iter().map(|report| report.used).sum();
    let capacity: u64 = reports.iter().map(|report| report.capacity).sum();
    let hidden = reports.iter().filter(|report| !report.in_sight).count();
    let notice = if hidden == 0 { String::new() } else { format!("Out of sight: {hidden}\n") };
    Ok(format!("{name}\nUsed(bytes): {used}\nCapacity(bytes) : {capacity}\n{notice}"))
}

#[derive(Serialize)]
pub(super) struct SegmentStatus {
    success: bool,
    segment: String,
    status: u8,
    status_name: &'static str,
    error_code: i32,
    error_message: &'static str,
}

/// `GET /api/v1/segments/status?segment=S`: the state of the segments of that name.
pub(super) async fn status(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<SegmentStatus>, Failure> {
    let name = parameters.required("segment")?;
    let found = named(&state, name).await?;
    // A drain of a name waits for all its segments. The numbers of the states grow with a drain's progress.
    let first = found.iter().min_by_key(|report| report.state as u8).expect("there is one");
    Ok(Json(SegmentStatus {
        success: true,
        segment: name.to_owned(),
        status: first.state as u8,
        status_name: state_name(first.state),
        error_code: 0,
        error_message: match (first.in_sight, first.is_reached) {
            (false, _) => "out of sight",
            (true, false) => "it cannot be reached at the address that it tells others",
            (true, true) => "",
        },
    }))
}

/// The segments of a name, at least one.
async fn named(state: &AdminState, name: &str) -> Result<Vec<SegmentReport>, Failure> {
    let mut reports = state.asker.segments().await?;
    reports.retain(|report| report.name.as_ref() == name);
    match reports.is_empty() {
        true => {
            Err(Failure::not_found(ErrorCode::SegmentNotFound, ErrorCode::SegmentNotFound.name()))
        }
        false => Ok(reports),
    }
}

pub(super) fn medium_name(medium: Medium) -> &'static str {
    match medium {
        Medium::Memory => "memory",
        Medium::Disk => "disk",
        Medium::SharedDisk => "shared disk",
        Medium::ObjectStore => "object store",
    }
}

pub(super) fn state_name(state: SegmentState) -> &'static str {
    match state {
        SegmentState::Undefined => "UNDEFINED",
        SegmentState::Ok => "OK",
        SegmentState::Draining => "DRAINING",
        SegmentState::Drained => "DRAINED",
        SegmentState::GracefullyUnmounting => "GRACEFULLY_UNMOUNTING",
        SegmentState::Unmounting => "UNMOUNTING",
        SegmentState::Recovering => "RECOVERING",
    }
}
