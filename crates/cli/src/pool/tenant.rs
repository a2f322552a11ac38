//! The flag by which commands on objects name a tenant.

use clap::Args;
use mooncake_types::{NotATenant, Tenant};

/// The tenant whose keys a command names.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TenantFlag {
    /// The tenant whose keys these are [default: MOONCAKE_TENANT_ID, or the default tenant].
    #[arg(long, value_name = "NAME", alias = "tenant_id", value_parser = Tenant::named)]
    tenant: Option<Tenant>,
}

impl TenantFlag {
    /// The tenant, if the command line names one.
    pub(super) fn named(&self) -> Option<Tenant> {
        self.tenant.clone()
    }

    /// The tenant that the command line names, or else the environment.
    ///
    /// # Errors
    /// The environment names none.
    pub(crate) fn tenant(&self) -> Result<Tenant, String> {
        let variable = || std::env::var("MOONCAKE_TENANT_ID").unwrap_or_default();
        let of_environment = || {
            let name = variable();
            Tenant::named(&name)
                .map_err(|wrong: NotATenant| format!("MOONCAKE_TENANT_ID={name}: {wrong}"))
        };
        self.named().map_or_else(of_environment, Ok)
    }
}
