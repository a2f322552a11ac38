//! The two forms of a call of `setup`, and the argument names of each.

use mooncake_client::nearest;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The arguments of the first form, in order. The first [`REQUIRED`] are required.
pub(crate) const NAMES: [&str; 14] = [
    "local_hostname",
    "metadata_server",
    "global_segment_size",
    "local_buffer_size",
    "protocol",
    "rdma_devices",
    "master_server_addr",
    "engine",
    "enable_ssd_offload",
    "ssd_offload_path",
    "tenant_id",
    "enable_client_http_server",
    "client_http_port",
    "enable_embedded_master",
];
const REQUIRED: usize = 7;
/// The keys that the dict of the second form may have.
const KEYS: [&str; 33] = [
    "local_hostname",
    "metadata_server",
    "global_segment_size",
    "local_buffer_size",
    "protocol",
    "rdma_devices",
    "device_name",
    "master_server_addr",
    "master_server_address",
    "enable_ssd_offload",
    "ssd_offload_path",
    "tenant_id",
    "enable_client_http_server",
    "client_http_port",
    "enable_embedded_master",
    "segment_path",
    "segment_reset",
    "verify_reads",
    "domain",
    "tls_cert",
    "tls_key",
    "tls_ca",
    "tls_server_name",
    "tls_verify_clients",
    "local_hot_cache_size",
    "drain_timeout_sec",
    "slow_call_ms",
    "ipc_socket_path",
    "enable_ssd_prefetch",
    "ssd_prefetch_cooldown_sec",
    "ssd_prefetch_dedup_ttl_sec",
    "enable_egm_store_pool",
    "egm_numa_nodes",
];
const FORMS: &str = "The following forms are supported:\n    \
    1. setup(local_hostname: str, metadata_server: str, global_segment_size: int, local_buffer_size: int, \
    protocol: str, rdma_devices: str, master_server_addr: str, engine: object = None, \
    enable_ssd_offload: bool = False, ssd_offload_path: str = '', tenant_id: str = 'default', \
    enable_client_http_server: bool = False, client_http_port: int = 9300, enable_embedded_master: bool = False) -> int\n    \
    2. setup(config: dict) -> int";

/// The dict, if the call has the second form.
pub(crate) fn only_dict<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let named = kwargs.map_or(0, PyDictMethods::len);
    let config = match (args.len(), named) {
        (1, 0) => Some(args.get_item(0)?),
        (0, 1) => kwargs.map(|kwargs| kwargs.get_item("config")).transpose()?.flatten(),
        _ => None,
    };
    Ok(config.and_then(|config| config.cast_into::<PyDict>().ok()))
}

/// Assigns the arguments of the first form to the positions of [`NAMES`].
pub(crate) fn bind<'py>(
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<[Option<Bound<'py, PyAny>>; NAMES.len()]> {
    let mut values = [const { None }; NAMES.len()];
    if args.len() > NAMES.len() {
        return Err(mismatch(&format!("{} are too many positional arguments", args.len())));
    }
    for (place, value) in values.iter_mut().zip(args.iter()) {
        *place = Some(value);
    }
    for (name, value) in kwargs.into_iter().flatten() {
        let name = name.str()?.to_string();
        let Some(index) = NAMES.iter().position(|known| *known == canonical(&name)) else {
            return Err(mismatch(&format!("unexpected keyword argument '{name}'")));
        };
        if values[index].replace(value).is_some() {
            return Err(mismatch(&format!("argument '{name}' is given twice")));
        }
    }
    match values.iter().take(REQUIRED).position(Option::is_none) {
        Some(index) => Err(mismatch(&format!("missing argument '{}'", NAMES[index]))),
        None => Ok(values),
    }
}

/// The name in [`NAMES`] of an argument that some callers spell differently.
fn canonical(name: &str) -> &str {
    match name {
        "master_server_address" => "master_server_addr",
        "device_name" => "rdma_devices",
        _ => name,
    }
}

pub(crate) fn mismatch(reason: &str) -> PyErr {
    PyTypeError::new_err(format!("setup(): incompatible function arguments: {reason}. {FORMS}"))
}

/// Warns of unknown keys. They are no error: callers put keys of their own into the dict.
pub(crate) fn warn_of_unknown_keys(config: &Bound<'_, PyDict>) -> PyResult<()> {
    for (key, _) in config {
        let key = key.str()?.to_string();
        if KEYS.contains(&&*key) {
            continue;
        }
        let hint = nearest(&key, KEYS.into_iter());
        let hint = hint.map(|known| format!("; did you mean {known:?}?")).unwrap_or_default();
        tracing::warn!("setup: there is no setting {key:?}, and it changes nothing{hint}");
    }
    Ok(())
}
