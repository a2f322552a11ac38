//! `/api/v1/tenant_quotas`: what tenants have and may have. Names as in the C++ package; the fields after
//! `has_explicit_policy` are our own.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use mooncake_meta::{TenantQuota, TenantReport};
use mooncake_types::{ErrorCode, Tenant};
use serde::{Deserialize, Serialize};

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;
use crate::tenants::{ChangeError, QuotaBook};

/// Most tenants without a quota that are listed.
const MOST_OTHERS: usize = 1024;

#[derive(Serialize)]
struct TenantState {
    tenant_id: String,
    requested_quota_bytes: u64,
    effective_quota_bytes: u64,
    charged_bytes: u64,
    /// Whether its puts are refused.
    admission_closed: bool,
    over_quota: bool,
    has_explicit_policy: bool,
    burst_bytes: u64,
    objects: u64,
    quota_objects: Option<u64>,
    burst_objects: Option<u64>,
    lookups: u64,
    hits: u64,
    refused_puts: u64,
    evicted_bytes: u64,
    pinned_bytes: u64,
}

impl From<TenantReport> for TenantState {
    fn from(report: TenantReport) -> Self {
        let quota = report.quota;
        Self {
            requested_quota_bytes: quota.map_or(0, |quota| quota.bytes),
            effective_quota_bytes: report.guaranteed_bytes,
            charged_bytes: report.bytes,
            admission_closed: quota.is_none(),
            over_quota: report.is_over(),
            has_explicit_policy: quota.is_some(),
            burst_bytes: report.most_bytes,
            objects: report.objects,
            quota_objects: quota.and_then(|quota| quota.objects),
            burst_objects: quota.and_then(|quota| quota.burst_objects),
            lookups: report.lookups,
            hits: report.hits,
            refused_puts: report.refused_puts,
            evicted_bytes: report.evicted_bytes,
            pinned_bytes: report.pinned_bytes,
            tenant_id: report.name,
        }
    }
}

/// An answer: one tenant, or a list.
#[derive(Serialize)]
pub(super) struct Answer<T> {
    success: bool,
    data: T,
}

/// One tenant, or all of them.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Found {
    One(Box<Shown>),
    All(Vec<Shown>),
}

/// What operators see of a tenant.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Shown(TenantState);

/// `GET /api/v1/tenant_quotas`: the quotas of all tenants and what they have, or of one with `?tenant_id=T`.
pub(super) async fn get(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Answer<Found>>, Failure> {
    book(&state)?;
    let shown = |report: TenantReport| Shown(report.into());
    if parameters.optional("tenant_id").is_none() {
        let mut all = state.asker.ask(|owner| owner.meta.tenants(MOST_OTHERS)).await?;
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let data = Found::All(all.into_iter().map(shown).collect());
        return Ok(Json(Answer { success: true, data }));
    }
    let tenant = parameters.tenant()?;
    let name = tenant.name().to_owned();
    let found = state.asker.ask(move |owner| owner.meta.tenant(&name)).await?;
    let report = found.ok_or_else(|| refused(&tenant, ErrorCode::TenantNotRegistered))?;
    Ok(Json(Answer { success: true, data: Found::One(Box::new(shown(report))) }))
}

/// The body of `PUT`. Other fields are ignored.
#[derive(Debug, Deserialize)]
struct WantedQuota {
    requested_quota_bytes: u64,
    burst_bytes: Option<u64>,
    quota_objects: Option<u64>,
    burst_objects: Option<u64>,
}

/// `PUT /api/v1/tenant_quotas?tenant_id=T`: sets the quota of a tenant.
pub(super) async fn put(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
    body: Bytes,
) -> Result<Json<Answer<Shown>>, Failure> {
    let tenant = named(&parameters)?;
    let wanted: WantedQuota = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(format!("Invalid JSON body: {error}")))?;
    let quota = TenantQuota {
        bytes: wanted.requested_quota_bytes,
        burst_bytes: wanted.burst_bytes,
        objects: wanted.quota_objects,
        burst_objects: wanted.burst_objects,
    };
    quota.validate().map_err(|wrong| Failure::bad_request(wrong.to_string()))?;
    change(&state, tenant, Some(quota)).await
}

/// `DELETE /api/v1/tenant_quotas?tenant_id=T`: takes the quota of a tenant away that has nothing in memory.
pub(super) async fn delete(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Answer<Shown>>, Failure> {
    let tenant = named(&parameters)?;
    change(&state, tenant, None).await
}

fn named(parameters: &Parameters) -> Result<Tenant, Failure> {
    parameters.required("tenant_id")?;
    parameters.tenant()
}

async fn change(
    state: &AdminState,
    tenant: Tenant,
    quota: Option<TenantQuota>,
) -> Result<Json<Answer<Shown>>, Failure> {
    match book(state)?.change(&state.asker, tenant.clone(), quota).await {
        Ok(report) => Ok(Json(Answer { success: true, data: Shown(report.into()) })),
        Err(ChangeError::NotServing(why)) => Err(why.into()),
        Err(ChangeError::Refused(code)) => Err(refused(&tenant, code)),
        Err(error @ ChangeError::Unwritten(_)) => {
            Err(Failure::internal(ErrorCode::InternalError, error.to_string()))
        }
    }
}

fn book(state: &AdminState) -> Result<&std::sync::Arc<QuotaBook>, Failure> {
    state.quotas.as_ref().ok_or_else(|| {
        let message = "tenants have no quotas here: start the master with --enable_multi_tenants";
        Failure::conflict(ErrorCode::UnavailableInCurrentMode, message)
    })
}

fn refused(tenant: &Tenant, code: ErrorCode) -> Failure {
    match code {
        ErrorCode::TenantNotRegistered => {
            Failure::not_found(code, format!("there is no tenant {tenant}"))
        }
        ErrorCode::TenantNotEmpty => {
            Failure::conflict(code, format!("the tenant {tenant} still has objects in memory"))
        }
        ErrorCode::UnavailableInCurrentStatus => Failure::from(crate::ask::NotServing),
        code => Failure::bad_request(format!("the quota of {tenant} is refused: {}", code.name())),
    }
}
