//! Soft pins that operators and schedulers set and end, whatever the puts asked for.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use mooncake_types::{Tenant, limits};
use serde::{Deserialize, Serialize};

use super::error::Failure;
use super::parameters::tenant;
use super::state::AdminState;

/// The body of both requests. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct PinRequest {
    #[serde(default)]
    keys: Vec<String>,
    ttl_ms: Option<u64>,
    tenant_id: Option<String>,
}

/// Keys, and the tenant that names them so.
struct TenantKeys {
    tenant: Tenant,
    keys: Vec<String>,
}

/// The reply: one result per key, in their order.
#[derive(Serialize)]
pub(super) struct Pinned {
    results: Vec<KeyResult>,
}

#[derive(Serialize)]
struct KeyResult {
    key: String,
    /// Zero if the key was pinned or unpinned.
    error_code: i32,
}

/// `POST /api/v1/soft_pin`: pins these objects for `ttl_ms` from now on.
pub(super) async fn pin(
    Extract(state): Extract<AdminState>,
    body: Bytes,
) -> Result<Json<Pinned>, Failure> {
    let (keys, ttl_ms) = read(&body)?;
    let ttl_ms = ttl_ms.ok_or_else(|| Failure::bad_request("soft_pin needs ttl_ms"))?;
    set(&state, keys, ttl_ms).await
}

/// `POST /api/v1/soft_unpin`: ends the soft pins of these objects.
pub(super) async fn unpin(
    Extract(state): Extract<AdminState>,
    body: Bytes,
) -> Result<Json<Pinned>, Failure> {
    let (keys, ttl_ms) = read(&body)?;
    if ttl_ms.is_some() {
        return Err(Failure::bad_request("soft_unpin takes no ttl_ms"));
    }
    set(&state, keys, 0).await
}

fn read(body: &[u8]) -> Result<(TenantKeys, Option<u64>), Failure> {
    let PinRequest { keys, ttl_ms, tenant_id } = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("Invalid JSON body: {error}")))?;
    let max = limits::MAX_BATCH_KEYS;
    if !(1..=max).contains(&keys.len()) {
        return Err(Failure::bad_request(format!("{} keys: it takes 1 to {max}", keys.len())));
    }
    let tenant = tenant(tenant_id.as_deref().unwrap_or_default())?;
    Ok((TenantKeys { tenant, keys }, ttl_ms))
}

async fn set(state: &AdminState, of: TenantKeys, ttl_ms: u64) -> Result<Json<Pinned>, Failure> {
    let TenantKeys { tenant, keys } = of;
    let pinned = state.asker.ask(move |owner| {
        let stored: Vec<_> = keys.iter().map(|key| tenant.key(key)).collect();
        let results = owner.soft_pin(&stored, ttl_ms)?;
        let code =
            |result: Result<(), _>| result.map_or_else(mooncake_types::ErrorCode::number, |()| 0);
        let results = results.into_iter().map(code);
        Ok(keys.into_iter().zip(results).collect::<Vec<_>>())
    });
    let pinned = pinned
        .await?
        .map_err(|code: mooncake_types::ErrorCode| Failure::internal(code, code.name()))?;
    let result = |(key, error_code)| KeyResult { key, error_code };
    Ok(Json(Pinned { results: pinned.into_iter().map(result).collect() }))
}
