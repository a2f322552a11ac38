//! The pool that a command is about: its name on the command line, and a store that joins it.

mod name;
mod tenant;

use std::cell::Cell;
use std::io::IsTerminal;
use std::ops::Deref;
use std::time::{Duration, Instant};

use clap::Args;
use mooncake_client::{HotCacheConfig, OffloadConfig, OpenError, Store, StoreConfig};
use mooncake_host_pool::{HostPool, HostPoolAddress};
use mooncake_types::without_password;

pub(crate) use name::PoolName;
use tenant::TenantFlag;

use crate::auth_token::TokenFlags;
use crate::exit::complain;

/// How long a command tries to reach a master. `MC_RPC_CONNECT_TIMEOUT_MS` overrides it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time the user reads what the command waits for.
const SILENT: Duration = Duration::from_secs(1);

/// The flags of a command that joins a pool as a client.
#[derive(Clone, Debug, Args)]
pub(crate) struct PoolFlags {
    #[command(flatten)]
    pub(crate) name: PoolName,
    #[command(flatten)]
    pub(crate) tenant: TenantFlag,
    #[command(flatten)]
    pub(crate) token: TokenFlags,
}

/// A store in the pool that a command names.
pub(crate) enum Pool {
    /// A pool with masters on the network.
    OfMasters(Box<Store>),
    /// A pool of the processes of this host.
    OfThisHost(Box<HostPool>),
}

/// Why a command cannot join a pool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// A flag or a variable is wrong.
    #[error("{reason}")]
    Setting { reason: String },
    #[error("{0}")]
    Open(#[from] OpenError),
    #[error(
        "local:// is a pool of one process, so this one would be empty; name a folder: local:///FOLDER"
    )]
    OwnPool,
    #[error("there is no pool at {folder}: {reason}")]
    NoFolder { folder: String, reason: String },
}

impl Pool {
    /// Joins the pool as a client that lends no memory.
    pub(crate) fn join(flags: &PoolFlags) -> Result<Self, JoinError> {
        let config = config(flags)?;
        let Some(address) = HostPoolAddress::parse(&config.master)? else {
            return Self::of_masters(config);
        };
        let folder = address.folder().ok_or(JoinError::OwnPool)?;
        // To join makes the folder, and a mistyped one is no pool.
        std::fs::metadata(folder).map_err(|error| JoinError::NoFolder {
            folder: folder.display().to_string(),
            reason: error.to_string(),
        })?;
        Self::of_this_host(&address, config)
    }

    /// As [`Pool::join`]. If the pool is that of this process alone, it lends so much memory to it.
    pub(crate) fn join_lending(flags: &PoolFlags, lent_bytes: u64) -> Result<Self, JoinError> {
        match HostPoolAddress::parse(&flags.name.master())? {
            Some(own) if own.folder().is_none() => {
                let config = StoreConfig { segment_bytes: lent_bytes, ..config(flags)? };
                Self::of_this_host(&own, config)
            }
            _ => Self::join(flags),
        }
    }

    fn of_masters(config: StoreConfig) -> Result<Self, JoinError> {
        let patience = patience(without_password(&config.master));
        Ok(Self::OfMasters(Box::new(Store::open_while(config, patience)?)))
    }

    fn of_this_host(address: &HostPoolAddress, config: StoreConfig) -> Result<Self, JoinError> {
        Ok(Self::OfThisHost(Box::new(HostPool::open(address, config)?)))
    }
}

impl Deref for Pool {
    type Target = Store;

    fn deref(&self) -> &Store {
        match self {
            Self::OfMasters(store) => store,
            Self::OfThisHost(pool) => pool,
        }
    }
}

/// The configuration of a store that lends nothing and keeps nothing.
fn config(flags: &PoolFlags) -> Result<StoreConfig, JoinError> {
    let wrong = |reason: String| JoinError::Setting { reason };
    let config = StoreConfig::from_env().map_err(|error| wrong(error.to_string()))?;
    let rpc_connect_timeout = match std::env::var_os("MC_RPC_CONNECT_TIMEOUT_MS") {
        Some(value) if !value.is_empty() => config.rpc_connect_timeout,
        _ => CONNECT_TIMEOUT,
    };
    Ok(StoreConfig {
        // The address of the connection to the master, which others may connect to.
        local_hostname: "0.0.0.0".to_owned(),
        master: flags.name.master(),
        cluster_id: flags.name.cluster_id.clone().unwrap_or(config.cluster_id),
        tenant: flags.tenant.named().unwrap_or(config.tenant),
        auth_token: flags.token.token().map_err(|error| wrong(error.to_string()))?.into(),
        segment_bytes: 0,
        segment_path: None,
        local_buffer_bytes: 0,
        offload: OffloadConfig::default(),
        hot_cache: HotCacheConfig::default(),
        drain_timeout: Duration::ZERO,
        rpc_connect_timeout,
        ..config
    })
}

/// Tells the user at a terminal, once, that no master has answered yet.
fn patience(master: String) -> impl Fn() -> bool + 'static {
    let (begun, is_told) = (Instant::now(), Cell::new(!std::io::stderr().is_terminal()));
    move || {
        if begun.elapsed() > SILENT && !is_told.replace(true) {
            complain(format_args!("mooncake: waits for a master at {master}\n"));
        }
        true
    }
}
