//! Who serves. A master without high availability is always the serving leader.

use axum::Json;
use axum::extract::State as Extract;
use serde::Serialize;

use super::error::Failure;
use super::server::State;

#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
    role: &'static str,
    ha_state: &'static str,
    service_ready: bool,
    leader_address: String,
    view_version: u64,
}

#[derive(Serialize)]
pub(super) struct Leader {
    present: bool,
    leader_address: String,
    view_version: u64,
}

/// `GET /health`. It passes through the owner, so that an owner that does not answer shows.
pub(super) async fn health(Extract(state): Extract<State>) -> Result<Json<Health>, Failure> {
    let epoch = state.asker.ask(|owner| owner.meta.epoch()).await?;
    Ok(Json(Health {
        status: "ok",
        role: "leader",
        ha_state: "serving",
        service_ready: true,
        leader_address: state.identity.leader,
        view_version: epoch.0,
    }))
}

/// `GET /leader`.
pub(super) async fn leader(Extract(state): Extract<State>) -> Json<Leader> {
    let view_version = state.identity.epoch.0;
    Json(Leader { present: true, leader_address: state.identity.leader, view_version })
}

/// `GET /role`.
pub(super) async fn role() -> &'static str {
    "leader"
}

/// `GET /ha_status`.
pub(super) async fn ha_status() -> &'static str {
    "serving"
}
