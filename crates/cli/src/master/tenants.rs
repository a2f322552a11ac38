//! The flags of tenants.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mooncake_master::QuotaSource;

use crate::quantity::Switch;

/// See [`MasterFlags`](super::flags::MasterFlags).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Tenants", rename_all = "snake_case")]
pub struct TenantFlags {
    /// Give each tenant a quota of memory. Only tenants with a quota may put then, the default tenant included. Keys of
    /// tenants are apart in any case.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_multi_tenants: Switch,
    /// Where the quotas are kept.
    #[arg(long, value_enum, default_value = "file", value_name = "TYPE")]
    pub tenant_quota_connector_type: ConnectorName,
    /// The YAML file of the quotas, or the address of etcd or Redis, like host:port.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "URI")]
    pub tenant_quota_connector_uri: String,
    /// Share of what a tenant may have above which its objects are evicted without waiting for a put, 0 to 1; 0: only
    /// when a put needs it.
    #[arg(long, default_value_t = 0.9, value_name = "RATIO")]
    pub tenant_eviction_high_watermark_ratio: f64,
}

/// A kind of place for quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConnectorName {
    /// A file.
    File,
    /// A key of etcd.
    Etcd,
    /// A key of Redis.
    Redis,
}

impl TenantFlags {
    /// Where the quotas are kept, if tenants have any.
    ///
    /// # Errors
    /// The text names the flag.
    pub(super) fn quotas(&self, cluster_id: &str) -> Result<Option<QuotaSource>, String> {
        if !self.enable_multi_tenants.0 {
            return Ok(None);
        }
        let uri = self.tenant_quota_connector_uri.trim();
        if uri.is_empty() {
            return Err("--enable_multi_tenants needs --tenant_quota_connector_uri: the file with the quotas, or \
                        with --tenant_quota_connector_type=etcd the address of etcd"
                .to_owned());
        }
        let at = |scheme: &str| {
            let has_scheme = uri.starts_with(scheme);
            let address = if has_scheme { uri.to_owned() } else { format!("{scheme}{uri}") };
            let cluster = cluster_id.trim_end_matches('/');
            QuotaSource::Value {
                address,
                key: format!("mooncake-store/{cluster}/tenant_quota_policy"),
            }
        };
        Ok(Some(match self.tenant_quota_connector_type {
            ConnectorName::File => QuotaSource::File(PathBuf::from(uri)),
            ConnectorName::Etcd => at("etcd://"),
            ConnectorName::Redis => at("redis://"),
        }))
    }
}
