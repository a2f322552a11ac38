//! The arguments of `setup`, in both of its forms.

use std::fmt;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use mooncake_client::no_effect::{asks_for_nothing, variables, warning};
use mooncake_client::{HttpAddress, OffloadConfig, StoreConfig, is_served_by_tcp};
use mooncake_engine::EngineConfig;
use mooncake_host_pool::HostPoolAddress;
use mooncake_types::{ByteSize, FailureDomainError, FailureDomains};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::argument;
use crate::engine::TransferEngineHandle;
use crate::protocol::warn_of_protocol;
use crate::setup_addresses::{DEFAULT_MASTER, PEER_TO_PEER, SetupAddresses, text_of};
use crate::setup_error::SetupError;
use crate::setup_form::{NAMES, bind, mismatch, only_dict, warn_of_unknown_keys};

const DEFAULT_SIZE: u64 = 16 << 20;
/// The local buffer of a store that `init_all` opens, in bytes; as in the C++ package.
const TRIAL_BUFFER_SIZE: u64 = 1 << 30;
const DEFAULT_HTTP_PORT: u64 = 9300;
/// All addresses of the host, as in the C++ package.
const HTTP_HOST: &str = "0.0.0.0";
const MIN_SIZE: u64 = 1 << 10;
const MAX_LOCAL_BUFFER: u64 = 1 << 40;

/// The arguments of `setup`, of either form. `metadata_server` matters only because it decides what the port means.
pub(crate) struct Setup {
    local_hostname: String,
    global_segment_size: u64,
    local_buffer_size: u64,
    protocol: String,
    master_server_addr: String,
    metadata_server: String,
    tenant_id: String,
    /// The transfer engine to keep open.
    pub(crate) engine: Option<Py<TransferEngineHandle>>,
    /// The port of the HTTP server; `None` for no server.
    http_port: Option<u64>,
    /// The file of the segment; `None` leaves it to the environment. Only a dict can set it.
    segment_path: Option<String>,
    segment_reset: bool,
    /// The failure domains; `None` leaves them to the environment. Only a dict can set them.
    domains: Option<FailureDomains>,
    /// How long `close` lets other nodes take over the objects that lie here; `None` leaves it to the environment.
    /// Only a dict can set it.
    drain_timeout: Option<Duration>,
    /// The size of the hot cache in bytes; `None` leaves it to the environment. Only a dict can set it.
    hot_cache_size: Option<u64>,
    /// Whether the store lends a disk; false leaves it to the environment.
    lends_disk: bool,
    /// The folder of that disk; `None` leaves it to the environment.
    disk_path: Option<String>,
    /// The names of arguments that were given and have no effect in this build.
    ignored: Vec<String>,
}

fn wrong(name: &'static str, reason: impl Into<String>) -> SetupError {
    SetupError::Wrong { name, reason: reason.into() }
}

impl Setup {
    /// Reads the arguments of a call in either form. A wrong value is the inner error, a wrong type the outer one.
    pub(crate) fn from_call(
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Result<Self, SetupError>> {
        if let Some(config) = only_dict(args, kwargs)? {
            warn_of_unknown_keys(&config)?;
            return Self::from_dict(&config);
        }
        Self::from_arguments(&bind(args, kwargs)?).map(Ok)
    }

    /// The arguments of `init_all`: a store on this host, with the master at its default address.
    pub(crate) fn for_trials(protocol: &str, segment_size: Option<u64>) -> Self {
        Self {
            local_hostname: "localhost".to_owned(),
            global_segment_size: segment_size.unwrap_or(DEFAULT_SIZE),
            local_buffer_size: TRIAL_BUFFER_SIZE,
            protocol: protocol.to_owned(),
            master_server_addr: DEFAULT_MASTER.to_owned(),
            metadata_server: PEER_TO_PEER.to_owned(),
            tenant_id: default_tenant(),
            engine: None,
            http_port: None,
            segment_path: None,
            segment_reset: false,
            domains: None,
            drain_timeout: None,
            hot_cache_size: None,
            lends_disk: false,
            disk_path: None,
            ignored: Vec::new(),
        }
    }

    fn from_arguments(values: &[Option<Bound<'_, PyAny>>; NAMES.len()]) -> PyResult<Self> {
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
        Ok(Self {
            local_hostname: text(0)?.to_string(),
            global_segment_size: number(2)?,
            local_buffer_size: number(3)?,
            protocol: text(4)?.to_string(),
            master_server_addr: text(6)?.to_string(),
            metadata_server: text(1)?.to_string(),
            tenant_id: optional_text(10)?
                .map_or_else(default_tenant, std::string::ToString::to_string),
            engine: engine(values[7].as_ref())?,
            http_port: flag(11)?.then_some(http_port),
            segment_path: None,
            segment_reset: false,
            domains: None,
            drain_timeout: None,
            hot_cache_size: None,
            lends_disk: flag(8)?,
            disk_path: optional_text(9)?.filter(|path| !path.is_empty()).map(str::to_owned),
            ignored: ignored(&[("rdma_devices", text(5)?)]),
        })
    }

    fn from_dict(config: &Bound<'_, PyDict>) -> PyResult<Result<Self, SetupError>> {
        let text = |names: &[&str]| text_of(config, names);
        let given_size = |name: &'static str| -> PyResult<Result<Option<u64>, SetupError>> {
            Ok(text(&[name])?.map_or(Ok(None), |size| match size.parse() {
                Ok(ByteSize(bytes)) => Ok(Some(bytes)),
                Err(error) => Err(wrong(name, format!("{size:?}: {error}"))),
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
        let places = match SetupAddresses::of(config)? {
            Ok(places) => places,
            Err(missing) => return Ok(Err(missing)),
        };
        let protocol = text(&["protocol"])?.unwrap_or_else(|| "tcp".to_owned());
        let tenant_id = text(&["tenant_id"])?.unwrap_or_else(default_tenant);
        let http_port = match text(&["client_http_port"])? {
            None => DEFAULT_HTTP_PORT,
            Some(port) => match port.trim().parse() {
                Ok(port) => port,
                Err(_) => return Ok(Err(wrong("client_http_port", not_a_port(&port)))),
            },
        };
        let (serves_http, segment_reset, lends_disk) = (
            flag("enable_client_http_server")?,
            flag("segment_reset")?,
            flag("enable_ssd_offload")?,
        );
        let segment_path = text(&["segment_path"])?.filter(|path| !path.is_empty());
        let disk_path = text(&["ssd_offload_path"])?.filter(|path| !path.is_empty());
        let drain_timeout = text(&["drain_timeout_sec"])?.map(|text| seconds(&text)).transpose();
        let domains = text(&["domain"])?.filter(|text| !text.trim().is_empty());
        let parsed = |text: String| {
            let wrong = |error: FailureDomainError| wrong("domain", format!("{text:?}: {error}"));
            text.parse().map_err(wrong)
        };
        let domains = domains.map(parsed).transpose();
        let unused = unused(config)?;
        Ok(global_segment_size.and_then(|global_segment_size| {
            let unused = unused.iter().map(|(name, value)| (*name, value.as_str()));
            Ok(Self {
                local_hostname: places.local_hostname,
                global_segment_size,
                local_buffer_size: local_buffer_size?,
                protocol,
                master_server_addr: places.master,
                metadata_server: places.metadata_server,
                tenant_id,
                engine: None,
                http_port: serves_http?.then_some(http_port),
                segment_path,
                domains: domains?,
                drain_timeout: drain_timeout?,
                hot_cache_size: hot_cache_size?,
                segment_reset: segment_reset?,
                lends_disk: lends_disk?,
                disk_path,
                ignored: ignored(&unused.collect::<Vec<_>>()),
            })
        }))
    }

    /// The address of the pool without a master; `None` if the store uses a master.
    pub(crate) fn host_pool(&self) -> Result<Option<HostPoolAddress>, SetupError> {
        HostPoolAddress::parse(&self.master_server_addr).map_err(SetupError::Open)
    }

    /// The configuration of the Rust store. Values that the arguments do not set come from the environment.
    pub(crate) fn store_config(&self) -> Result<StoreConfig, SetupError> {
        self.check_sizes()?;
        match self.protocol.as_str() {
            "tcp" => {}
            other if is_served_by_tcp(other) => warn_of_protocol("setup", other),
            "rpc_only" if self.global_segment_size == 0 => {}
            "rpc_only" => {
                return Err(wrong("global_segment_size", "must be 0 with protocol 'rpc_only'"));
            }
            other if is_tcp_forced() => {
                tracing::warn!("setup: protocol {other:?} is taken for 'tcp': MC_FORCE_TCP is set");
            }
            other => {
                let reason = format!(
                    "{other:?} is not one of 'tcp', 'rdma', 'efa', 'rpc_only'; with MC_FORCE_TCP=1 it is taken for 'tcp'"
                );
                return Err(wrong("protocol", reason));
            }
        }
        if !self.tenant_id.is_empty() && self.tenant_id != default_tenant() {
            let reason =
                format!("{:?}: this build serves one tenant only, 'default'", self.tenant_id);
            return Err(wrong("tenant_id", reason));
        }
        warn_of(&self.ignored);
        let environment = StoreConfig::from_env().map_err(SetupError::Environment)?;
        let segment_path = self.segment_path.as_ref().map(PathBuf::from);
        let mut hot_cache = environment.hot_cache.clone();
        hot_cache.bytes = self.hot_cache_size.unwrap_or(hot_cache.bytes);
        Ok(StoreConfig {
            segment_path: segment_path.or_else(|| environment.segment_path.clone()),
            segment_reset: self.segment_reset || environment.segment_reset,
            domains: self.domains.clone().unwrap_or(environment.domains),
            hot_cache,
            offload: self.offload(&environment.offload),
            drain_timeout: self.drain_timeout.unwrap_or(environment.drain_timeout),
            local_hostname: self.local_hostname.clone(),
            master: self.master_server_addr.clone(),
            segment_bytes: self.global_segment_size,
            local_buffer_bytes: self.local_buffer_size,
            http: self.http()?,
            // With a metadata server, peers of a C++ store look its address up there, and the port is only part of its
            // name. Without one, peers connect to this port.
            port_is_a_name: self.metadata_server != PEER_TO_PEER,
            ..environment
        })
    }

    fn offload(&self, environment: &OffloadConfig) -> OffloadConfig {
        let path = self.disk_path.as_ref().map(PathBuf::from);
        OffloadConfig {
            is_enabled: self.lends_disk || environment.is_enabled,
            path: path.unwrap_or_else(|| environment.path.clone()),
            ..environment.clone()
        }
    }

    fn http(&self) -> Result<Option<HttpAddress>, SetupError> {
        let Some(port) = self.http_port else { return Ok(None) };
        match u16::try_from(port) {
            Ok(port) => Ok(Some(HttpAddress { host: HTTP_HOST.to_owned(), port })),
            Err(_) => Err(wrong("client_http_port", not_a_port(&port))),
        }
    }

    fn check_sizes(&self) -> Result<(), SetupError> {
        let sizes = [
            ("global_segment_size", self.global_segment_size),
            ("local_buffer_size", self.local_buffer_size),
        ];
        for (name, size) in sizes {
            if size != 0 && size < MIN_SIZE {
                return Err(wrong(name, format!("{size} is neither 0 nor at least {MIN_SIZE}")));
            }
        }
        if self.local_buffer_size > MAX_LOCAL_BUFFER {
            let reason = format!("{} is more than {MAX_LOCAL_BUFFER}", self.local_buffer_size);
            return Err(wrong("local_buffer_size", reason));
        }
        Ok(())
    }
}

fn engine(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<TransferEngineHandle>>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(None) };
    let wanted = "None or what TransferEngine.get_engine() returns";
    let handle = value.cast::<TransferEngineHandle>();
    let handle = handle.map_err(|_| argument("setup", NAMES[7]).wrong(wanted, value))?;
    Ok(Some(handle.clone().unbind()))
}

/// Whether the environment makes TCP serve every protocol, for stores as for transfer engines.
fn is_tcp_forced() -> bool {
    EngineConfig::from_env().is_ok_and(|config| config.force_tcp)
}

fn default_tenant() -> String {
    "default".to_owned()
}

fn seconds(text: &str) -> Result<Duration, SetupError> {
    let number: Result<u32, _> = text.trim().parse();
    let number = number.map_err(|_| wrong("drain_timeout_sec", "is not a whole number of seconds"));
    number.map(|number| Duration::from_secs(number.into()))
}

/// The keys of a dict that have no effect, with their values.
fn unused(config: &Bound<'_, PyDict>) -> PyResult<Vec<(&'static str, String)>> {
    let mut unused = Vec::new();
    for name in ["rdma_devices", "device_name", "ipc_socket_path"] {
        if let Some(value) = config.get_item(name)?.filter(|value| !value.is_none()) {
            unused.push((name, value.str()?.to_string()));
        }
    }
    Ok(unused)
}

/// The names of these arguments whose values ask for something. None of the arguments has an effect.
fn ignored(arguments: &[(&str, &str)]) -> Vec<String> {
    let asking = arguments.iter().filter(|(_, value)| !asks_for_nothing(value));
    asking.map(|(name, _)| (*name).to_owned()).collect()
}

/// Logs one warning that names what has no effect: these arguments, and, in the first call of the process, variables
/// of its environment.
fn warn_of(arguments: &[String]) {
    static ENVIRONMENT: Once = Once::new();
    let mut names = arguments.to_vec();
    ENVIRONMENT.call_once(|| names.extend(variables()));
    if let Some(warning) = warning(&names) {
        tracing::warn!("setup: {warning}");
    }
}

fn not_a_port(value: &dyn fmt::Display) -> String {
    format!("{value} is not a port from 0 to 65535")
}

fn truth(name: &'static str, word: &str) -> Result<bool, SetupError> {
    match word.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" | "on" => Ok(true),
        "false" | "f" | "no" | "n" | "0" | "off" | "" => Ok(false),
        _ => Err(wrong(name, format!("is {word:?}; it must be true or false"))),
    }
}
