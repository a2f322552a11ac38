//! `ReplicateConfig`: how a put places the replicas of an object, and how the pool keeps them.

use mooncake_binding::{DATA_TYPES, ReplicateSettings, SOFT_PIN_ACTIONS};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::argument::Argument;

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

fn optional_texts(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<String>>> {
    match value.is_none() {
        true => Ok(None),
        false => texts(name, value).map(Some),
    }
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
        self.settings.group_ids = optional_texts("group_ids", value)?;
        Ok(())
    }

    /// The session of each key of a put, one str per key, or None. KV events tell it, and nothing else uses it. Reading
    /// returns a copy: assign a new list to change it.
    #[getter]
    fn session_ids(&self) -> Option<Vec<String>> {
        self.settings.session_ids.clone()
    }

    #[setter]
    fn set_session_ids(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.session_ids = optional_texts("session_ids", value)?;
        Ok(())
    }

    /// Accepted, without effect: one str per key, or None.
    #[getter]
    fn residency_affinity_ids(&self) -> Option<Vec<String>> {
        self.settings.residency_affinity_ids.clone()
    }

    #[setter]
    fn set_residency_affinity_ids(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.residency_affinity_ids = optional_texts("residency_affinity_ids", value)?;
        Ok(())
    }

    /// Names of network cards, or None. Accepted, without effect.
    #[getter]
    fn preferred_hca_names(&self) -> Option<Vec<String>> {
        self.settings.preferred_hca_names.clone()
    }

    #[setter]
    fn set_preferred_hca_names(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.settings.preferred_hca_names = optional_texts("preferred_hca_names", value)?;
        Ok(())
    }

    /// Names of network cards for each key of a put, or None. Accepted, without effect.
    #[getter]
    fn per_key_preferred_hca_names(&self) -> Option<Vec<Vec<String>>> {
        self.settings.per_key_preferred_hca_names.clone()
    }

    #[setter]
    fn set_per_key_preferred_hca_names(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        const NAME: &str = "per_key_preferred_hca_names";
        self.settings.per_key_preferred_hca_names = match value.cast::<PyList>() {
            Ok(lists) => {
                Some(lists.iter().map(|list| texts(NAME, &list)).collect::<PyResult<_>>()?)
            }
            Err(_) if value.is_none() => None,
            Err(_) => return Err(attribute(NAME).wrong("a list of lists of str, or None", value)),
        };
        Ok(())
    }
}
