//! `POST /api/v1/remove_all`.

use axum::Json;
use axum::extract::State as Extract;
use mooncake_types::{ClientId, ErrorCode, Reply, Request, Scan, ScanAction};
use serde::Serialize;
use tokio::time::{Duration, Instant, sleep_until};

use super::error::Failure;
use super::parameters::Parameters;
use super::server::State;
use crate::owner::SCAN_PAGE_OBJECTS;

#[derive(Serialize)]
pub(super) struct Removed {
    success: bool,
    removed_count: u64,
}

/// Removes all objects, leased ones only with `force`, page by page. The answer comes when no client can read them.
pub(super) async fn remove_all(
    Extract(state): Extract<State>,
    parameters: Parameters,
) -> Result<Json<Removed>, Failure> {
    let force = parameters.truth("force")?;
    if let Some(tenant) = parameters.optional("tenant_id").filter(|tenant| *tenant != "default") {
        let message =
            format!("there is no tenant {tenant}: tenants are not supported in this build");
        return Err(Failure::not_found(ErrorCode::TenantNotRegistered, message));
    }
    let (mut removed_count, mut next) = (0, Some(0));
    let mut gone_at = Instant::now();
    while let Some(cursor) = next {
        let page = move || Scan {
            pattern: None,
            action: ScanAction::Remove { force },
            cursor,
            limit: SCAN_PAGE_OBJECTS,
        };
        match state
            .asker
            .ask(move |owner| owner.handle(ClientId::OPERATOR, &Request::Scan(page())))
            .await?
        {
            Reply::Scanned(page) => {
                removed_count += page.removed;
                gone_at =
                    gone_at.max(Instant::now() + Duration::from_millis(page.remains.lease_ms));
                next = page.next_cursor;
            }
            Reply::Refused(code) => return Err(Failure::internal(code, code.name())),
            other => unreachable!("a scan is answered by a page, not by {other:?}"),
        }
    }
    // The master cannot have nodes drop anything: until the leases are over, clients may read what they have routes to.
    sleep_until(gone_at).await;
    Ok(Json(Removed { success: true, removed_count }))
}
