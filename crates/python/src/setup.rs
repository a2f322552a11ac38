//! The arguments of `setup`, in both of its forms.

use std::path::PathBuf;
use std::time::Duration;

use mooncake_binding::{DEFAULT_HTTP_PORT, DEFAULT_SIZE, Setup, SetupError, truth};
use mooncake_tls::TlsConfig;
use mooncake_types::{ByteSize, FailureDomainError, FailureDomains, PrefetchLimits};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::argument;
use crate::engine::TransferEngineHandle;
use crate::setup_addresses::{SetupAddresses, text_of};
use crate::setup_form::{NAMES, bind, mismatch, only_dict, warn_of_unknown_keys};

/// The arguments of a call, and the transfer engine to keep open.
type SetupCall = (Setup, Option<Py<TransferEngineHandle>>);

/// Reads the arguments of a call in either form. A wrong value is the inner error, a wrong type the outer one.
pub(crate) fn from_call(
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Result<SetupCall, SetupError>> {
    if let Some(config) = only_dict(args, kwargs)? {
        warn_of_unknown_keys(&config)?;
        return Ok(from_dict(&config)?.map(|setup| (setup, None)));
    }
    from_arguments(&bind(args, kwargs)?).map(Ok)
}

fn from_arguments(values: &[Option<Bound<'_, PyAny>>; NAMES.len()]) -> PyResult<SetupCall> {
    let required = |index: usize| {
        let missing = || mismatch(&format!("missing argument '{}'", NAMES[index]));
        values[index].as_ref().ok_or_else(missing)
    };
    let text = |index| argument("setup", NAMES[index]).text(required(index)?);
    let number = |index| argument("setup", NAMES[index]).number(required(index)?);
    let flag = |index: usize| {
        values[index].as_ref().map_or(Ok(false), |v| argument("setup", NAMES[index]).flag(v))
    };
    let optional_text = |index: usize| {
        let value = values[index].as_ref();
        value.map(|value| argument("setup", NAMES[index]).text(value)).transpose()
    };
    let http_port = match &values[12] {
        Some(port) => argument("setup", NAMES[12]).number(port)?,
        None => DEFAULT_HTTP_PORT,
    };
    let setup = Setup {
        local_hostname: text(0)?.to_string(),
        global_segment_size: number(2)?,
        local_buffer_size: number(3)?,
        protocol: text(4)?.to_string(),
        master_server_addr: text(6)?.to_string(),
        metadata_server: text(1)?.to_string(),
        tenant_id: optional_text(10)?.map(str::to_owned),
        http_port: flag(11)?.then_some(http_port),
        lends_disk: flag(8)?,
        disk_path: optional_text(9)?.filter(|path| !path.is_empty()).map(str::to_owned),
        has_own_master: flag(13)?,
        ..Setup::default()
    };
    let setup = setup.with_ignored(&[("rdma_devices", text(5)?)]);
    Ok((setup, engine(values[7].as_ref())?))
}

fn from_dict(config: &Bound<'_, PyDict>) -> PyResult<Result<Setup, SetupError>> {
    let text = |names: &[&str]| text_of(config, names);
    let given_size = |name: &'static str| -> PyResult<Result<Option<u64>, SetupError>> {
        Ok(text(&[name])?.map_or(Ok(None), |size| match size.parse() {
            Ok(ByteSize(bytes)) => Ok(Some(bytes)),
            Err(error) => Err(SetupError::wrong(name, format!("{size:?}: {error}"))),
        }))
    };
    let size = |name: &'static str| -> PyResult<Result<u64, SetupError>> {
        Ok(given_size(name)?.map(|size| size.unwrap_or(DEFAULT_SIZE)))
    };
    let hot_cache_size = given_size("local_hot_cache_size")?;
    let flag = |name: &'static str| -> PyResult<Result<bool, SetupError>> {
        Ok(text(&[name])?.map_or(Ok(false), |word| truth(name, &word)))
    };
    let (global_segment_size, local_buffer_size) =
        (size("global_segment_size")?, size("local_buffer_size")?);
    let places = match flag("enable_embedded_master")? {
        Ok(has_own_master) => SetupAddresses::of(config, has_own_master)?,
        Err(error) => Err(error),
    };
    let places = match places {
        Ok(places) => places,
        Err(error) => return Ok(Err(error)),
    };
    let protocol = text(&["protocol"])?.unwrap_or(Setup::default().protocol);
    let tenant_id = text(&["tenant_id"])?;
    let http_port = http_port(config)?;
    let (serves_http, segment_reset, lends_disk) =
        (flag("enable_client_http_server")?, flag("segment_reset")?, flag("enable_ssd_offload")?);
    let verify_reads = flag("verify_reads")?;
    let segment_path = text(&["segment_path"])?.filter(|path| !path.is_empty());
    let disk_path = text(&["ssd_offload_path"])?.filter(|path| !path.is_empty());
    let drain_timeout = seconds(config, "drain_timeout_sec")?;
    let slow_call = whole(config, "slow_call_ms", "is not a whole number of milliseconds")?;
    let ssd_prefetch = ssd_prefetch(flag("enable_ssd_prefetch")?, config)?;
    let domains = domains(config)?;
    let tls = tls(flag("tls_verify_clients")?, config)?;
    let unused = unused(config)?;
    Ok(global_segment_size.and_then(|global_segment_size| {
        let unused = unused.iter().map(|(name, value)| (*name, value.as_str()));
        let setup = Setup {
            local_hostname: places.local_hostname,
            global_segment_size,
            local_buffer_size: local_buffer_size?,
            protocol,
            master_server_addr: places.master,
            metadata_server: places.metadata_server,
            tenant_id,
            http_port: serves_http?.then_some(http_port?),
            segment_path,
            tls: tls?,
            domains: domains?,
            drain_timeout: drain_timeout?.map(|seconds| Duration::from_secs(seconds.into())),
            slow_call: slow_call?.map(|ms| Duration::from_millis(ms.into())),
            ssd_prefetch: ssd_prefetch?,
            hot_cache_size: hot_cache_size?,
            segment_reset: segment_reset?,
            verify_reads: verify_reads?,
            lends_disk: lends_disk?,
            disk_path,
            has_own_master: places.has_own_master,
            ..Setup::default()
        };
        Ok(setup.with_ignored(&unused.collect::<Vec<_>>()))
    }))
}

/// The port of the client's own HTTP server.
fn http_port(config: &Bound<'_, PyDict>) -> PyResult<Result<u64, SetupError>> {
    Ok(text_of(config, &["client_http_port"])?.map_or(Ok(DEFAULT_HTTP_PORT), |port| {
        port.trim().parse().map_err(|_| SetupError::not_a_port("client_http_port", &port))
    }))
}

/// The certificates, if the dict names some.
fn tls(
    verify_clients: Result<bool, SetupError>,
    config: &Bound<'_, PyDict>,
) -> PyResult<Result<TlsConfig, SetupError>> {
    let text = |name| text_of(config, &[name]).map(|text| text.filter(|text| !text.is_empty()));
    let path = |name| PyResult::Ok(text(name)?.map(PathBuf::from));
    let (cert, key, ca) = (path("tls_cert")?, path("tls_key")?, path("tls_ca")?);
    let server_name = text("tls_server_name")?;
    Ok(verify_clients.map(|verify_clients| TlsConfig {
        cert,
        key,
        ca,
        server_name,
        verify_clients,
    }))
}

/// The failure domains of the node, if the dict has some.
fn domains(config: &Bound<'_, PyDict>) -> PyResult<Result<Option<FailureDomains>, SetupError>> {
    let domains = text_of(config, &["domain"])?.filter(|text| !text.trim().is_empty());
    let parsed = |text: String| {
        let wrong =
            |error: FailureDomainError| SetupError::wrong("domain", format!("{text:?}: {error}"));
        text.parse().map_err(wrong)
    };
    Ok(domains.map(parsed).transpose())
}

fn engine(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<TransferEngineHandle>>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    let wanted = "None or what TransferEngine.get_engine() returns";
    let handle = value.cast::<TransferEngineHandle>();
    let handle = handle.map_err(|_| argument("setup", NAMES[7]).wrong(wanted, value))?;
    Ok(Some(handle.clone().unbind()))
}

/// The seconds under a key of a dict, if it has it.
fn seconds(
    config: &Bound<'_, PyDict>,
    name: &'static str,
) -> PyResult<Result<Option<u32>, SetupError>> {
    whole(config, name, "is not a whole number of seconds")
}

/// The number under a key of a dict, if it has it.
fn whole(
    config: &Bound<'_, PyDict>,
    name: &'static str,
    otherwise: &str,
) -> PyResult<Result<Option<u32>, SetupError>> {
    let Some(text) = text_of(config, &[name])? else { return Ok(Ok(None)) };
    Ok(text.trim().parse().map(Some).map_err(|_| SetupError::wrong(name, otherwise)))
}

fn ssd_prefetch(
    is_enabled: Result<bool, SetupError>,
    config: &Bound<'_, PyDict>,
) -> PyResult<Result<Option<PrefetchLimits>, SetupError>> {
    let (cooldown, rest) = (
        seconds(config, "ssd_prefetch_cooldown_sec")?,
        seconds(config, "ssd_prefetch_dedup_ttl_sec")?,
    );
    let limits = || {
        let defaults = PrefetchLimits::default();
        let ms = |given: Option<u32>, default| given.map_or(default, |it| it.saturating_mul(1_000));
        let (cooldown_ms, rest_ms) =
            (ms(cooldown?, defaults.cooldown_ms), ms(rest?, defaults.rest_ms));
        Ok(is_enabled?.then_some(PrefetchLimits { cooldown_ms, rest_ms }))
    };
    Ok(limits())
}

/// The keys of a dict that have no effect, with their values.
fn unused(config: &Bound<'_, PyDict>) -> PyResult<Vec<(&'static str, String)>> {
    let mut unused = Vec::new();
    for name in [
        "rdma_devices",
        "device_name",
        "ipc_socket_path",
        "enable_egm_store_pool",
        "egm_numa_nodes",
    ] {
        if let Some(value) = config.get_item(name)?.filter(|value| !value.is_none()) {
            unused.push((name, value.str()?.to_string()));
        }
    }
    Ok(unused)
}
