//! `GET /version`.

use axum::Json;
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Versions {
    version: &'static str,
    protocol_version: u32,
}

/// `GET /version`: the versions of this program and of its protocol.
pub(super) async fn version() -> Json<Versions> {
    Json(Versions { version: SOFTWARE_VERSION, protocol_version: PROTOCOL_VERSION })
}
