//! Counts of the published KV events.

use axum::Json;
use axum::extract::State as Extract;
use axum::response::IntoResponse;
use mooncake_kv_events::Publisher;
use serde::Serialize;

use super::state::AdminState;

#[derive(Serialize)]
struct KvEventStatus {
    enabled: bool,
    published_batches: u64,
    published_events: u64,
    dropped_events: u64,
    skipped_unparsed_keys: u64,
    subscribers: u64,
    endpoint: Option<String>,
}

/// `GET /kv_events/status`: how many KV events were published, and how many were lost.
pub(super) async fn status(Extract(state): Extract<AdminState>) -> impl IntoResponse {
    let publisher = state.kv_events.as_deref();
    let stats = publisher.map(Publisher::stats).unwrap_or_default();
    Json(KvEventStatus {
        enabled: publisher.is_some(),
        published_batches: stats.batches,
        published_events: stats.events,
        dropped_events: stats.dropped,
        skipped_unparsed_keys: stats.unnumbered_keys,
        subscribers: stats.subscribers,
        endpoint: publisher.map(|publisher| format!("tcp://{}", publisher.address())),
    })
}
