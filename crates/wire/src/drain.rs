//! The messages about drain jobs: their status and progress.

use mooncake_types::limits::{MAX_DRAIN_SEGMENTS, MAX_TASK_MESSAGE_BYTES};
use mooncake_types::{DrainId, DrainReport, DrainStatus};

use crate::{DecodeError, column, generated as proto};

fn from_status(status: DrainStatus) -> i32 {
    match status {
        DrainStatus::Created => proto::DrainStatus::Created.into(),
        DrainStatus::Planning => proto::DrainStatus::Planning.into(),
        DrainStatus::Running => proto::DrainStatus::Running.into(),
        DrainStatus::Succeeded => proto::DrainStatus::Succeeded.into(),
        DrainStatus::Failed => proto::DrainStatus::Failed.into(),
        DrainStatus::Canceled => proto::DrainStatus::Canceled.into(),
    }
}

fn to_status(number: i32) -> Result<DrainStatus, DecodeError> {
    match proto::DrainStatus::try_from(number) {
        Ok(proto::DrainStatus::Created) => Ok(DrainStatus::Created),
        Ok(proto::DrainStatus::Planning) => Ok(DrainStatus::Planning),
        Ok(proto::DrainStatus::Running) => Ok(DrainStatus::Running),
        Ok(proto::DrainStatus::Succeeded) => Ok(DrainStatus::Succeeded),
        Ok(proto::DrainStatus::Failed) => Ok(DrainStatus::Failed),
        Ok(proto::DrainStatus::Canceled) => Ok(DrainStatus::Canceled),
        Err(_) => Err(DecodeError::OutOfRange { what: "status", value: number.into() }),
    }
}

pub(crate) fn from_report(report: &DrainReport) -> proto::DrainSegmentsResponse {
    let end = report.message.floor_char_boundary(MAX_TASK_MESSAGE_BYTES);
    proto::DrainSegmentsResponse {
        job_id: column::from_id(report.id.0),
        status: from_status(report.status),
        created_ms_ago: report.created_ms_ago,
        updated_ms_ago: report.updated_ms_ago,
        segment_names: report.segments.clone(),
        moved_units: report.moved_units,
        moved_bytes: report.moved_bytes,
        released_units: report.released_units,
        failed_units: report.failed_units,
        blocked_units: report.blocked_units,
        active_units: report.active_units,
        remaining_units: report.remaining_units,
        remaining_bytes: report.remaining_bytes,
        message: report.message[..end].to_owned(),
    }
}

pub(crate) fn to_report(message: proto::DrainSegmentsResponse) -> Result<DrainReport, DecodeError> {
    if message.message.len() > MAX_TASK_MESSAGE_BYTES {
        return Err(DecodeError::TooMany { what: "message", limit: MAX_TASK_MESSAGE_BYTES });
    }
    if message.segment_names.len() > MAX_DRAIN_SEGMENTS {
        return Err(DecodeError::TooMany { what: "segment_names", limit: MAX_DRAIN_SEGMENTS });
    }
    Ok(DrainReport {
        id: DrainId(column::to_id("job_id", &message.job_id)?),
        status: to_status(message.status)?,
        created_ms_ago: message.created_ms_ago,
        updated_ms_ago: message.updated_ms_ago,
        segments: message.segment_names,
        moved_units: message.moved_units,
        moved_bytes: message.moved_bytes,
        released_units: message.released_units,
        failed_units: message.failed_units,
        blocked_units: message.blocked_units,
        active_units: message.active_units,
        remaining_units: message.remaining_units,
        remaining_bytes: message.remaining_bytes,
        message: message.message,
    })
}
