//! Metrics. The owner only copies its counters; this thread makes the text. A standby has few metrics.

use axum::extract::State as Extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use mooncake_http::prometheus;
use mooncake_types::ErrorCode;

use super::error::Failure;
use super::state::AdminState;
use crate::metrics;
use crate::summary;

/// `GET /metrics`: the metrics, as Prometheus reads them.
pub(super) async fn metrics(
    Extract(state): Extract<AdminState>,
) -> Result<impl IntoResponse, Failure> {
    let snapshot = state.asker.snapshot().await.ok();
    let status = state.status.borrow().clone();
    let followed = *state.following.borrow();
    let text = metrics::text((status, followed), snapshot)
        .map_err(|error| Failure::internal(ErrorCode::InternalError, error.to_string()))?;
    Ok(([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text))
}

/// `GET /metrics/summary`: the line that the master logs every 10 s.
pub(super) async fn summary(Extract(state): Extract<AdminState>) -> String {
    let snapshot = state.asker.snapshot().await.ok();
    summary::line(&state.status.borrow(), snapshot.as_ref()) + "\n"
}
