//! `POST /api/v1/remove_all` and `POST /api/v1/remove_by_regex`.

use axum::Json;
use axum::extract::State as Extract;
use mooncake_meta::{Remnant, RemnantCursor};
use mooncake_types::{Epoch, ErrorCode, ScanAction, Version};
use serde::Serialize;
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::error::Failure;
use super::parameters::Parameters;
use super::scan::AdminScan;
use super::state::AdminState;
use crate::ask::NotServing;
use crate::owner::Owner;

#[derive(Serialize)]
pub(super) struct Removed {
    success: bool,
    removed_count: u64,
}

/// How long nodes may take to drop the objects, once no client can read them. Heartbeats tell nodes of the drops.
const NODES_PATIENCE: Duration = Duration::from_secs(30);

/// Time between two questions whether they have.
const LOOK: Duration = Duration::from_millis(20);

/// `POST /api/v1/remove_all?force=BOOL&tenant_id=T`: removes all objects, or those of one tenant, page by page, leased
/// ones only with `force`. Replies once no client can read them, and no later leader can find them.
pub(super) async fn remove_all(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Removed>, Failure> {
    let force = parameters.truth("force")?;
    // As in the C++ package, objects of all tenants go if none is named.
    let tenant = parameters.optional("tenant_id").map(|_| parameters.tenant()).transpose()?;
    remove(&state, &AdminScan::of_all(tenant, ScanAction::Remove { force })).await
}

/// `POST /api/v1/remove_by_regex?regex=R&force=BOOL`: the same for the objects whose keys the regular expression finds.
pub(super) async fn remove_by_regex(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Removed>, Failure> {
    let force = parameters.truth("force")?;
    remove(&state, &AdminScan::by_regex(&parameters, ScanAction::Remove { force })?).await
}

async fn remove(state: &AdminState, scan: &AdminScan) -> Result<Json<Removed>, Failure> {
    let term = state.asker.ask(|owner| owner.meta.began_under()).await?;
    let (removed_count, gone_at) = remove_pages(state, scan).await?;
    let newest = state.asker.ask(|owner| owner.meta.newest_version()).await?;
    // Until the leases end, nodes keep the objects for clients that have routes to them.
    sleep_until(gone_at).await;
    await_nodes(state, (term, newest), removed_count).await?;
    Ok(Json(Removed { success: true, removed_count }))
}

/// Returns how many objects were removed, and when the last lease on them ends.
async fn remove_pages(state: &AdminState, scan: &AdminScan) -> Result<(u64, Instant), Failure> {
    let (mut removed_count, mut next) = (0, Some(0));
    let mut gone_at = Instant::now();
    while let Some(cursor) = next {
        let page = scan.page(state, cursor).await?;
        removed_count += page.removed;
        gone_at = gone_at.max(Instant::now() + Duration::from_millis(page.remains.lease_ms));
        next = page.next_cursor;
    }
    Ok((removed_count, gone_at))
}

/// Waits until the nodes have dropped all objects up to this version.
async fn await_nodes(
    state: &AdminState,
    (term, newest): (Epoch, Version),
    removed_count: u64,
) -> Result<(), Failure> {
    let unconfirmed = |code, why: &str| {
        Failure::unconfirmed(
            code,
            format!(
                "{removed_count} objects were removed, but {why}: they may be back under another leader"
            ),
        )
    };
    let give_up_at = Instant::now() + NODES_PATIENCE;
    let mut from = RemnantCursor::default();
    loop {
        let look = move |owner: &mut Owner| owner.look_for_remnants(term, newest, from);
        let looked = match state.asker.ask(look).await {
            Ok(looked) => looked,
            Err(NotServing) => Err(ErrorCode::UnavailableInCurrentMode),
        };
        match looked {
            Ok(Remnant::None) => return Ok(()),
            Ok(Remnant::From(next)) if next != from => from = next,
            Ok(Remnant::From(_)) if Instant::now() >= give_up_at => {
                let why = "not all nodes have said in time that they dropped them";
                return Err(unconfirmed(ErrorCode::RpcTimeout, why));
            }
            Ok(Remnant::From(_)) => sleep(LOOK).await,
            Err(code) => {
                let why = "this master leads no more, before all nodes had dropped them";
                return Err(unconfirmed(code, why));
            }
        }
    }
}
