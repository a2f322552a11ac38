//! `GET /version`.

use axum::Json;
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Versions {
    version: &'static str,
    protocol_version: u32,
}

/// What this program is. A standby answers this, too.
pub(super) async fn version() -> Json<Versions> {
    Json(Versions { version: SOFTWARE_VERSION, protocol_version: PROTOCOL_VERSION })
}
