use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post, put};
use mooncake_types::{ErrorCode, Rights};

use super::authorize::{Guard, Needed, authorize};
use super::error::Failure;
use super::state::AdminState;
use super::{
    drains, health, key_list, keys, kv_events, page, prometheus, removal, segments, soft_pins,
    tenant_quotas, version,
};

/// The routes of the admin server. Requests that change something or name keys and nodes need a token, unless there is
/// none. If tokens have roles, those for counters need one, too.
pub(crate) fn router(state: AdminState, guard: &Guard) -> Router {
    let needs = |needed| from_fn_with_state((guard.clone(), needed), authorize);
    let changes = Router::new()
        .route("/api/v1/drain_jobs", post(drains::create))
        .route("/api/v1/drain_jobs/cancel", post(drains::cancel))
        .route("/api/v1/segments/undrain", post(drains::undrain))
        .route("/api/v1/remove_all", post(removal::remove_all))
        .route("/api/v1/remove_by_regex", post(removal::remove_by_regex))
        .route("/api/v1/soft_pin", post(soft_pins::pin))
        .route("/api/v1/soft_unpin", post(soft_pins::unpin))
        .route("/api/v1/tenant_quotas", put(tenant_quotas::put).delete(tenant_quotas::delete))
        .route_layer(needs(Needed::Right(Rights::ADMIN)));
    let keys = Router::new()
        .route("/query_key", get(keys::query_key))
        .route("/batch_query_keys", get(keys::batch_query_keys).post(keys::batch_query_listed_keys))
        .route("/get_all_keys", get(key_list::get_all_keys))
        .route("/query_by_regex", get(key_list::query_by_regex))
        .route_layer(needs(Needed::Right(Rights::READ)));
    let counters = Router::new()
        .route("/metrics", get(prometheus::metrics))
        .route("/metrics/summary", get(prometheus::summary))
        .route_layer(needs(Needed::Counters));
    let nodes = Router::new()
        .route("/get_all_segments", get(segments::get_all_segments))
        .route("/get_segments_detail", get(segments::get_segments_detail))
        .route("/query_segment", get(segments::query_segment))
        .route("/api/v1/segments/status", get(segments::status))
        .route("/api/v1/drain_jobs", get(drains::list))
        .route("/api/v1/tenant_quotas", get(tenant_quotas::get))
        .route("/api/v1/drain_jobs/query", get(drains::query))
        .route("/kv_events/status", get(kv_events::status))
        .route_layer(needs(Needed::Right(Rights::METRICS)));
    let live = Router::new()
        .route("/api/v1/live", get(page::live))
        .route_layer(needs(Needed::Right(Rights::METRICS)));
    Router::new()
        .merge(live)
        .route("/", get(page::page))
        .merge(changes)
        .merge(keys)
        .merge(counters)
        .merge(nodes)
        .route("/version", get(version::version))
        .route("/health", get(health::health))
        .route("/role", get(health::role))
        .route("/ha_status", get(health::ha_status))
        .route("/leader", get(health::leader))
        .fallback(async |uri: Uri| {
            Failure::not_found(ErrorCode::InvalidParams, format!("there is no {}", uri.path()))
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Failure::wrong_method(format!("{} does not take {method}", uri.path()))
        })
        .with_state(state)
}
