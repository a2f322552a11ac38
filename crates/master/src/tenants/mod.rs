//! Where the quotas of tenants are kept: in a file, or under a key of a coordinator. The state machine enforces them.
//!
//! Every leader reads them when its term begins. A change by HTTP is first made in the state machine, which may refuse
//! it, and then written; if it cannot be written, it is taken back. Two leaders write at the same time only while one of
//! them is being deposed. Then the last one wins, as when two operators edit the file.

mod policy;
mod source;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use mooncake_meta::{Meta, TenantQuota, TenantReport};
use mooncake_types::{ErrorCode, Tenant};
use thiserror::Error;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use crate::ask::{Asker, NotServing};
use crate::owner::Owner;

pub use source::{QuotaSource, QuotaSourceError};

/// The quotas, by tenant.
pub(crate) type Quotas = BTreeMap<Tenant, TenantQuota>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct QuotaBook {
    source: QuotaSource,
    /// The quotas as they were read or written last.
    known: Mutex<Quotas>,
    /// One change at a time.
    changing: tokio::sync::Mutex<()>,
}

/// A change of a quota that was not made.
#[derive(Clone, Debug, PartialEq, Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    NotServing(#[from] NotServing),
    /// The state machine refuses it.
    #[error("{0}")]
    Refused(ErrorCode),
    /// It could not be written, and was taken back.
    #[error("the quotas cannot be kept: {0}")]
    Unwritten(QuotaSourceError),
}

impl QuotaBook {
    /// Reads the quotas.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn open(source: QuotaSource) -> Result<Arc<QuotaBook>, QuotaSourceError> {
        let quotas = source.read()?;
        info!(tenants = quotas.len(), from = %source, "tenants have quotas");
        let (known, changing) = (Mutex::new(quotas), tokio::sync::Mutex::default());
        Ok(Arc::new(QuotaBook { source, known, changing }))
    }

    /// Begins a term: sets all quotas, as they are now. If they cannot be read, those that were read last count.
    pub(crate) fn begin(&self, meta: &mut Meta) {
        let quotas = self.source.read().unwrap_or_else(|error| {
            warn!(%error, "the quotas of tenants cannot be read; the last known ones count");
            self.known().clone()
        });
        for (tenant, &quota) in &quotas {
            if let Err(code) = meta.set_tenant_quota(tenant, Some(quota)) {
                warn!(%tenant, %code, "the quota of a tenant is refused");
            }
        }
        *self.known() = quotas;
    }

    /// Sets the quota of a tenant as `change` makes it from the present one, or takes it away. Returns what operators see
    /// of the tenant then, or saw of it before it lost its quota.
    ///
    /// # Errors
    /// Nothing has changed.
    pub(crate) async fn change(
        self: &Arc<Self>,
        asker: &Asker,
        tenant: Tenant,
        quota: Option<TenantQuota>,
    ) -> Result<TenantReport, ChangeError> {
        let _one = self.changing.lock().await;
        let before = self.known().get(&tenant).copied();
        let seen = set(asker, tenant.clone(), quota).await?.map_err(ChangeError::Refused)?;
        let (book, changed) = (Arc::clone(self), tenant.clone());
        let written = spawn_blocking(move || book.write(&changed, quota));
        // The thread ends without a result only while the master stops.
        match written.await.map_err(|_| NotServing)? {
            Ok(()) => Ok(seen),
            Err(error) => {
                // It fails only if the term is over, and the next one reads what is kept.
                let _ = set(asker, tenant, before).await;
                Err(ChangeError::Unwritten(error))
            }
        }
    }

    fn write(&self, tenant: &Tenant, quota: Option<TenantQuota>) -> Result<(), QuotaSourceError> {
        let mut quotas = self.source.read()?;
        match quota {
            Some(quota) => drop(quotas.insert(tenant.clone(), quota)),
            None => drop(quotas.remove(tenant)),
        }
        self.source.write(&quotas)?;
        info!(%tenant, ?quota, "the quota of a tenant was changed");
        *self.known() = quotas;
        Ok(())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Quotas> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets a quota in the state machine. Returns what operators see of the tenant.
async fn set(
    asker: &Asker,
    tenant: Tenant,
    quota: Option<TenantQuota>,
) -> Result<Result<TenantReport, ErrorCode>, NotServing> {
    let change = move |owner: &mut Owner| {
        let before = owner.meta.tenant(tenant.name());
        owner.set_tenant_quota(&tenant, quota)?;
        owner.meta.tenant(tenant.name()).or(before).ok_or(ErrorCode::TenantNotRegistered)
    };
    asker.ask(change).await
}
