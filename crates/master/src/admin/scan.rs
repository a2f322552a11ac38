//! Pages of the scans that operators ask for. As for those of clients, another thread matches the keys.

use std::sync::Arc;

use mooncake_types::{
    ClientId, ErrorCode, Reply, Request, Scan, ScanAction, ScanPage, Tenant, limits,
};

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;
use crate::ask::NotServing;
use crate::owner::{Deposed, Owner, SCAN_PAGE_OBJECTS};

/// A walk over all objects, or over those whose keys a regular expression finds.
#[derive(Clone, Debug)]
pub(super) struct AdminScan {
    /// The tenant whose objects count; absent: those of all tenants.
    tenant: Option<Tenant>,
    pattern: Option<Arc<str>>,
    action: ScanAction,
}

impl AdminScan {
    /// A walk over all objects of a tenant, or of all tenants.
    pub(super) fn of_all(tenant: Option<Tenant>, action: ScanAction) -> AdminScan {
        AdminScan { tenant, pattern: None, action }
    }

    /// A walk over the objects of the parameter `tenant_id` that the parameter `regex` finds.
    pub(super) fn by_regex(
        parameters: &Parameters,
        action: ScanAction,
    ) -> Result<AdminScan, Failure> {
        let (tenant, pattern) = (Some(parameters.tenant()?), parameters.required("regex")?);
        Ok(AdminScan { tenant, pattern: Some(pattern.into()), action })
    }

    /// The page at a cursor; zero is the first.
    pub(super) async fn page(&self, state: &AdminState, cursor: u64) -> Result<ScanPage, Failure> {
        let reply = match &self.pattern {
            None => {
                let scan = self.clone();
                let look = move |owner: &mut Owner| {
                    owner.handle(ClientId::OPERATOR, &Request::Scan(scan.at(cursor)))
                };
                state.asker.ask(look).await?
            }
            Some(pattern) => self.matched(state, pattern, cursor).await?,
        };
        match reply {
            Reply::Scanned(page) => Ok(page),
            Reply::Refused(ErrorCode::InvalidParams) => Err(Failure::bad_request(format!(
                "the regular expression is refused: it does not parse, is longer than {} bytes, or needs look-around \
                 or back-references",
                limits::MAX_REGEX_BYTES
            ))),
            Reply::Refused(code) => Err(Failure::internal(code, code.name())),
            other => unreachable!("a scan is answered by a page, not by {other:?}"),
        }
    }

    async fn matched(
        &self,
        state: &AdminState,
        pattern: &str,
        cursor: u64,
    ) -> Result<Reply, Failure> {
        let deposed = |_: Deposed| Failure::from(NotServing);
        let scan = self.clone();
        let begin = move |owner: &mut Owner| owner.begin_scan(ClientId::OPERATOR, &scan.at(cursor));
        let matched = match state.asker.ask(begin).await?.map_err(deposed)? {
            Ok(keys) => state.matcher.pick(pattern, keys).await,
            Err(code) => Err(code),
        };
        let scan = self.clone();
        let end =
            move |owner: &mut Owner| owner.end_scan(ClientId::OPERATOR, &scan.at(cursor), matched);
        state.asker.ask(end).await?.map_err(deposed)
    }

    fn at(&self, cursor: u64) -> Scan<'_> {
        let (pattern, action) = (self.pattern.as_deref(), self.action);
        let tenant = self.tenant.as_ref().map(Tenant::name);
        Scan { tenant, pattern, action, cursor, limit: SCAN_PAGE_OBJECTS }
    }
}
