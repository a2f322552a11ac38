//! The addresses in the dict that `setup` takes: of the store, of its metadata server and of its master.

use mooncake_binding::{DEFAULT_MASTER, PEER_TO_PEER, Setup, SetupError};
use mooncake_host_pool::HostPoolAddress;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The addresses of one store.
pub(crate) struct SetupAddresses {
    pub(crate) local_hostname: String,
    pub(crate) metadata_server: String,
    pub(crate) master: String,
    /// Whether the pool has its master in this process.
    pub(crate) has_own_master: bool,
}

impl SetupAddresses {
    /// Reads the addresses from `config`. The hostname and the metadata server may be absent if there is no master, or
    /// an own one, which the caller or the environment asks for.
    pub(crate) fn of(
        config: &Bound<'_, PyDict>,
        wants_own_master: bool,
    ) -> PyResult<Result<Self, SetupError>> {
        let has_own_master = match Setup::own_master_of_environment() {
            Ok(wanted) => wanted || wants_own_master,
            Err(error) => return Ok(Err(error)),
        };
        let master = text_of(config, &["master_server_addr", "master_server_address"])?;
        let master = master.unwrap_or_else(|| DEFAULT_MASTER.to_owned());
        if master.trim().is_empty() && !has_own_master {
            let reason = "is empty; a store that is to need no master says local://".to_owned();
            return Ok(Err(SetupError::Wrong { name: "master_server_addr", reason }));
        }
        let has_no_master = has_own_master || !matches!(HostPoolAddress::parse(&master), Ok(None));
        let place = |name, default: &str| -> PyResult<Result<String, SetupError>> {
            let default = has_no_master.then(|| default.to_owned());
            Ok(text_of(config, &[name])?.or(default).ok_or(SetupError::Missing(name)))
        };
        let local_hostname = place("local_hostname", "localhost")?;
        let metadata_server = place("metadata_server", PEER_TO_PEER)?;
        Ok(local_hostname.and_then(|local_hostname| {
            Ok(Self { local_hostname, metadata_server: metadata_server?, master, has_own_master })
        }))
    }
}

/// The value of the first of these keys that is present and not `None`, as text.
pub(crate) fn text_of(config: &Bound<'_, PyDict>, names: &[&str]) -> PyResult<Option<String>> {
    for name in names {
        if let Some(value) = config.get_item(name)?.filter(|value| !value.is_none()) {
            return Ok(Some(value.str()?.to_string()));
        }
    }
    Ok(None)
}
