//! `ReplicateConfig`: how a put places the replicas of an object, and how the pool keeps them.

use std::fmt;

use mooncake_client::{ErrorCode, SoftPin};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::argument::Argument;
use crate::log;

const SOFT_PIN_ACTIONS: [&str; 3] = ["PRESERVE", "ENABLE", "DISABLE"];
const PRESERVE: u8 = 0;
const ENABLE: u8 = 1;
const DISABLE: u8 = 2;
const DATA_TYPES: [&str; 10] = [
    "UNKNOWN",
    "KVCACHE",
    "TENSOR",
    "WEIGHT",
    "SAMPLE",
    "ACTIVATION",
    "GRADIENT",
    "OPTIMIZER_STATE",
    "METADATA",
    "GENERAL",
];

/// A copy of the attributes of a `ReplicateConfig`, taken when a call began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicateSettings {
    replica_num: u64,
    nof_replica_num: u64,
    dfs_replica_num: u64,
    soft_pin_action: u8,
    soft_pin_ttl_ms: Option<u64>,
    with_soft_pin: bool,
    with_hard_pin: bool,
    preferred_segments: Vec<String>,
    preferred_segment: String,
    preferred_nof_segments: Vec<String>,
    prefer_alloc_in_same_node: bool,
    data_type: u8,
    group_ids: Option<Vec<String>>,
}

impl Default for ReplicateSettings {
    fn default() -> Self {
        Self {
            replica_num: 1,
            nof_replica_num: 0,
            dfs_replica_num: 0,
            soft_pin_action: PRESERVE,
            soft_pin_ttl_ms: None,
            with_soft_pin: false,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            preferred_segment: String::new(),
            preferred_nof_segments: Vec::new(),
            prefer_alloc_in_same_node: false,
            data_type: 0,
            group_ids: None,
        }
    }
}

impl ReplicateSettings {
    /// The configuration for a put of one object.
    ///
    /// # Errors
    /// `InvalidParams` if attributes contradict each other, or ask for what this put cannot do.
    pub(crate) fn for_one(
        &self,
        operation: &str,
    ) -> Result<mooncake_client::ReplicateConfig<'_>, ErrorCode> {
        if self.prefer_alloc_in_same_node {
            return Err(refuse(operation, "prefer_alloc_in_same_node is for batches"));
        }
        self.for_many(operation, 1)
    }

    /// The configuration for a put of `keys` objects.
    ///
    /// # Errors
    /// As [`ReplicateSettings::for_one`].
    pub(crate) fn for_many(
        &self,
        operation: &str,
        keys: usize,
    ) -> Result<mooncake_client::ReplicateConfig<'_>, ErrorCode> {
        if self.nof_replica_num > 0 || self.dfs_replica_num > 0 {
            return Err(refuse(operation, "there are only memory replicas"));
        }
        let Some(replica_num) = u32::try_from(self.replica_num).ok().filter(|&count| count > 0)
        else {
            return Err(refuse(operation, "replica_num is out of range"));
        };
        let groups = self.group_ids.as_ref().map_or(0, Vec::len);
        if groups != 0 && groups != keys {
            return Err(refuse(operation, "group_ids needs one id per key"));
        }
        Ok(mooncake_client::ReplicateConfig {
            replica_num,
            soft_pin: self.soft_pin(operation)?,
            hard_pin: self.with_hard_pin,
            preferred_segments: self.preferred(),
            excluded_segments: Vec::new(),
            same_node: self.prefer_alloc_in_same_node,
            data_type: self.data_type,
        })
    }

    /// The group of the object at this position of a batch; empty if it has none.
    pub(crate) fn group(&self, position: usize) -> &str {
        self.group_ids.as_ref().and_then(|ids| ids.get(position)).map_or("", String::as_str)
    }

    fn soft_pin(&self, operation: &str) -> Result<SoftPin, ErrorCode> {
        match (self.soft_pin_action, self.soft_pin_ttl_ms) {
            (ENABLE, ttl_ms) => Ok(SoftPin::Enable { ttl_ms }),
            (_, Some(_)) => Err(refuse(operation, "soft_pin_ttl_ms needs SoftPinAction.ENABLE")),
            (DISABLE, None) => Ok(SoftPin::Disable),
            (_, None) if self.with_soft_pin => Ok(SoftPin::Sliding),
            (_, None) => Ok(SoftPin::Preserve),
        }
    }

    /// The segments to try first. `preferred_segment` wins over the list.
    fn preferred(&self) -> Vec<&str> {
        if self.preferred_segment.is_empty() {
            self.preferred_segments.iter().map(String::as_str).collect()
        } else {
            vec![&self.preferred_segment]
        }
    }
}

fn refuse(operation: &str, reason: &str) -> ErrorCode {
    log::warn(operation, reason, format_args!("{reason}"));
    ErrorCode::InvalidParams
}

impl fmt::Display for ReplicateSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = SOFT_PIN_ACTIONS[usize::from(self.soft_pin_action)];
        write!(f, "ReplicateConfig: {{ replica_num: {}", self.replica_num)?;
        write!(f, ", nof_replica_num: {}", self.nof_replica_num)?;
        write!(f, ", dfs_replica_num: {}", self.dfs_replica_num)?;
        write!(f, ", soft_pin_action: {action}, soft_pin_ttl_ms: ")?;
        match self.soft_pin_ttl_ms {
            Some(ttl_ms) => write!(f, "{ttl_ms}")?,
            None => write!(f, "None")?,
        }
        write!(f, ", with_soft_pin: {}", self.with_soft_pin)?;
        write!(f, ", with_hard_pin: {}", self.with_hard_pin)?;
        write!(f, ", preferred_segments: {:?}", self.preferred_segments)?;
        write!(f, ", preferred_segment: {:?}", self.preferred_segment)?;
        write!(f, ", preferred_nof_segments: {:?}", self.preferred_nof_segments)?;
        write!(f, ", prefer_alloc_in_same_node: {}", self.prefer_alloc_in_same_node)?;
        write!(f, ", data_type: {}, group_ids: ", DATA_TYPES[usize::from(self.data_type)])?;
        match &self.group_ids {
            Some(ids) => write!(f, "{ids:?} }}"),
            None => write!(f, "None }}"),
        }
    }
}

/// How a put places the replicas of an object, and how the pool keeps them.
///
/// A soft pin protects an object from eviction while other objects can be evicted. There are two forms:
///
/// - `with_soft_pin=True`: the pin ends once no client has accessed the object for the master's default time;
/// - `soft_pin_action=SoftPinAction.ENABLE`: the pin ends `soft_pin_ttl_ms` milliseconds after the object became
///   readable. This form wins over `with_soft_pin`.
///
/// Setting an attribute to a value of a wrong type raises TypeError. Combinations of values are checked by the put,
/// which returns -600.
#[pyclass(subclass, weakref, module = "mooncake.store")]
pub(crate) struct ReplicateConfig {
    settings: ReplicateSettings,
}

impl ReplicateConfig {
    pub(crate) fn settings(&self) -> &ReplicateSettings {
        &self.settings
    }
}

const fn attribute(name: &'static str) -> Argument {
    Argument::Attribute(name)
}

fn texts(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Ok(attribute(name).texts(value)?.strs()?.into_iter().map(str::to_owned).collect())
}

/// The member of the Python enumeration `class` that has this number.
pub(crate) fn member<'py>(py: Python<'py>, class: &str, number: u8) -> PyResult<Bound<'py, PyAny>> {
    py.import("mooncake._enums")?.getattr(class)?.call1((number,))
}

/// The number of an enumeration's member. `names` are the names of all members.
fn number_of(
    name: &'static str,
    names: &[&str],
    wanted: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<u8> {
    let number = value.extract::<u8>().ok().filter(|&number| usize::from(number) < names.len());
    number.ok_or_else(|| attribute(name).wrong(wanted, value))
}

#[pymethods]
impl ReplicateConfig {
    /// Ignores all arguments, so that constructors of subclasses may take any. `__init__` takes none.
    #[new]
    #[pyo3(signature = (*_args, **_kwargs), text_signature = "()")]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { settings: ReplicateSettings::default() }
    }

    fn __init__(&self) {}

    fn __str__(&self) -> String {
        self.settings.to_string()
    }

    fn __repr__(&self) -> String {
        self.settings.to_string()
    }

    /// The number of memory replicas, at least 1. Each lies on a segment of its own; if there is no room for all, a
    /// put makes fewer.
    #[getter]
    fn replica_num(&self) -> u64 {
        self.settings.replica_num
    }

    #[setter]
    fn set_replica_num(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.replica_num = attribute("replica_num").number(value)?;
        Ok(())
    }

    /// The number of replicas on NVMe-oF targets. This build has none: it must stay 0.
    #[getter]
    fn nof_replica_num(&self) -> u64 {
        self.settings.nof_replica_num
    }

    #[setter]
    fn set_nof_replica_num(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.nof_replica_num = attribute("nof_replica_num").number(value)?;
        Ok(())
    }

    /// The number of replicas on a distributed file system. This build has none: it must stay 0.
    #[getter]
    fn dfs_replica_num(&self) -> u64 {
        self.settings.dfs_replica_num
    }

    #[setter]
    fn set_dfs_replica_num(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.dfs_replica_num = attribute("dfs_replica_num").number(value)?;
        Ok(())
    }

    /// A `SoftPinAction`: whether a put keeps, sets or removes the soft pin.
    #[getter]
    fn soft_pin_action<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "SoftPinAction", self.settings.soft_pin_action)
    }

    #[setter]
    fn set_soft_pin_action(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = number_of("soft_pin_action", &SOFT_PIN_ACTIONS, "a SoftPinAction", value)?;
        self.settings.soft_pin_action = number;
        Ok(())
    }

    /// The duration of a soft pin in milliseconds, or None for the master's default. A put refuses a value without
    /// `SoftPinAction.ENABLE`.
    #[getter]
    fn soft_pin_ttl_ms(&self) -> Option<u64> {
        self.settings.soft_pin_ttl_ms
    }

    #[setter]
    fn set_soft_pin_ttl_ms(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.soft_pin_ttl_ms = match value.is_none() {
            true => None,
            false => Some(attribute("soft_pin_ttl_ms").number(value)?),
        };
        Ok(())
    }

    /// Whether the object is soft-pinned until no client has accessed it for the master's default time.
    #[getter]
    fn with_soft_pin(&self) -> bool {
        self.settings.with_soft_pin
    }

    #[setter]
    fn set_with_soft_pin(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.with_soft_pin = attribute("with_soft_pin").flag(value)?;
        Ok(())
    }

    /// Whether the pool never evicts the object. It can still be removed.
    #[getter]
    fn with_hard_pin(&self) -> bool {
        self.settings.with_hard_pin
    }

    #[setter]
    fn set_with_hard_pin(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.with_hard_pin = attribute("with_hard_pin").flag(value)?;
        Ok(())
    }

    /// The names of the segments to try first, in order. Reading returns a copy: assign a new list to change it.
    #[getter]
    fn preferred_segments(&self) -> Vec<String> {
        self.settings.preferred_segments.clone()
    }

    #[setter]
    fn set_preferred_segments(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.preferred_segments = texts("preferred_segments", value)?;
        Ok(())
    }

    /// The name of the segment to try first. Unless empty, it wins over `preferred_segments`.
    #[getter]
    fn preferred_segment(&self) -> String {
        self.settings.preferred_segment.clone()
    }

    #[setter]
    fn set_preferred_segment(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.preferred_segment = attribute("preferred_segment").text(value)?.to_string();
        Ok(())
    }

    /// Names of NVMe-oF segments. Accepted, without effect.
    #[getter]
    fn preferred_nof_segments(&self) -> Vec<String> {
        self.settings.preferred_nof_segments.clone()
    }

    #[setter]
    fn set_preferred_nof_segments(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.preferred_nof_segments = texts("preferred_nof_segments", value)?;
        Ok(())
    }

    /// Whether a batch puts its objects on one segment as long as it has room. That is the preferred segment, or that
    /// of the batch's first object. Puts of a single object refuse it with -600.
    #[getter]
    fn prefer_alloc_in_same_node(&self) -> bool {
        self.settings.prefer_alloc_in_same_node
    }

    #[setter]
    fn set_prefer_alloc_in_same_node(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.prefer_alloc_in_same_node =
            attribute("prefer_alloc_in_same_node").flag(value)?;
        Ok(())
    }

    /// The kind of data, an `ObjectDataType`. The pool stores it and does not act on it.
    #[getter]
    fn data_type<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "ObjectDataType", self.settings.data_type)
    }

    #[setter]
    fn set_data_type(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = number_of("data_type", &DATA_TYPES, "an ObjectDataType", value)?;
        self.settings.data_type = number;
        Ok(())
    }

    /// The group of each key of a put, one str per key, or None for no groups. Reading returns a copy: assign a new
    /// list to change it.
    #[getter]
    fn group_ids(&self) -> Option<Vec<String>> {
        self.settings.group_ids.clone()
    }

    #[setter]
    fn set_group_ids(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.group_ids = match value.is_none() {
            true => None,
            false => Some(texts("group_ids", value)?),
        };
        Ok(())
    }
}
