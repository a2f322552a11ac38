//! Where the replicas of an object lie, as Python callers see it.

use std::path::Path;

use mooncake_binding::log;
use mooncake_client::{ErrorCode, ObjectLocation, ReplicaLocation, ShownKey, file_of_range};
use mooncake_types::Medium;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::argument::argument;
use crate::replicate_config::member;
use crate::store::MooncakeDistributedStore;

/// The number of `ReplicaStatus.COMPLETE`. Callers learn of complete replicas only.
const COMPLETE: u8 = 3;

/// A range of a segment's memory.
#[pyclass(module = "mooncake.store", get_all, set_all)]
#[derive(Clone, Default)]
pub(crate) struct Descriptor {
    /// Length in bytes.
    size: u64,
    /// The offset of the range in its segment, in bytes: nodes do not reveal addresses of their memory.
    buffer_address: u64,
    /// The name of the segment; by default the `host:port` of its store.
    transport_endpoint: String,
}

#[pymethods]
impl Descriptor {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __repr__(&self) -> String {
        format!(
            "<Descriptor size={} buffer_address={} transport_endpoint={}>",
            self.size, self.buffer_address, self.transport_endpoint
        )
    }
}

/// A replica in memory.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct MemoryDescriptor {
    buffer: Descriptor,
}

#[pymethods]
impl MemoryDescriptor {
    /// The first range of the replica. A replica that is not striped has only this range.
    #[getter]
    fn buffer_descriptor(&self) -> Descriptor {
        self.buffer.clone()
    }
}

/// A replica in a directory that several hosts share.
#[pyclass(frozen, module = "mooncake.store", get_all)]
pub(crate) struct DiskDescriptor {
    /// The path of the file that holds the replica.
    file_path: String,
    /// The object's length in bytes.
    object_size: u64,
}

/// One complete replica of an object.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct ReplicaDescriptor {
    stripes: Vec<Descriptor>,
    medium: Medium,
}

#[pymethods]
impl ReplicaDescriptor {
    /// Always `ReplicaStatus.COMPLETE`.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "ReplicaStatus", COMPLETE)
    }

    /// Whether the replica lies in memory.
    fn is_memory_replica(&self) -> bool {
        self.medium == Medium::Memory
    }

    /// Whether the replica lies in a directory that several hosts share.
    fn is_disk_replica(&self) -> bool {
        self.medium == Medium::SharedDisk
    }

    /// Whether the replica lies on the disk of a node.
    fn is_local_disk_replica(&self) -> bool {
        self.medium == Medium::Disk
    }

    /// Whether the replica lies in an object store.
    fn is_object_store_replica(&self) -> bool {
        self.medium == Medium::ObjectStore
    }

    /// The replica's place in memory. Raises RuntimeError unless `is_memory_replica()`.
    fn get_memory_descriptor(&self) -> PyResult<MemoryDescriptor> {
        if !self.is_memory_replica() {
            let text = format!("get_memory_descriptor(): the replica lies {}", self.place());
            return Err(PyRuntimeError::new_err(text));
        }
        Ok(MemoryDescriptor { buffer: self.stripes.first().cloned().unwrap_or_default() })
    }

    /// The file of the replica. Raises RuntimeError unless `is_disk_replica()`.
    fn get_disk_descriptor(&self) -> PyResult<DiskDescriptor> {
        let object_size = self.stripes.iter().map(|stripe| stripe.size).sum();
        match self.stripes.first().filter(|_| self.is_disk_replica()) {
            Some(Descriptor { transport_endpoint: folder, buffer_address: offset, .. }) => {
                let file_path = file_of_range(Path::new(folder), *offset).display().to_string();
                Ok(DiskDescriptor { file_path, object_size })
            }
            None => {
                let text = format!("get_disk_descriptor(): the replica lies {}", self.place());
                Err(PyRuntimeError::new_err(text))
            }
        }
    }

    fn __repr__(&self) -> String {
        let ranges: Vec<_> = self.stripes.iter().map(Descriptor::__repr__).collect();
        format!("<ReplicaDescriptor {}>", ranges.join(" "))
    }
}

impl ReplicaDescriptor {
    /// The replica's medium, in words for an error.
    const fn place(&self) -> &'static str {
        match self.medium {
            Medium::Memory => "in memory",
            Medium::Disk => "on the disk of a node",
            Medium::SharedDisk => "in a shared directory",
            Medium::ObjectStore => "in an object store",
        }
    }

    fn of(replica: &ReplicaLocation) -> Self {
        let stripe = |stripe: &mooncake_client::Stripe| Descriptor {
            size: stripe.len,
            buffer_address: stripe.offset,
            transport_endpoint: stripe.segment.name.to_string(),
        };
        let stripes = replica.stripes.iter().map(stripe).collect();
        Self { stripes, medium: replica.medium() }
    }

    fn all_of(location: &ObjectLocation) -> Vec<Self> {
        location.replicas.iter().map(Self::of).collect()
    }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// The complete replicas of an object. The call grants an object that exists a lease, as a read does. Returns an
    /// empty list if there is no such object, and for every other failure.
    fn get_replica_desc(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<ReplicaDescriptor>> {
        let key = argument("get_replica_desc", "key").text(key)?;
        let Some(store) = self.store_for("get_replica_desc") else { return Ok(Vec::new()) };
        let located = py.detach(|| store.locate(&[key]));
        Ok(located.iter().flatten().next().map(ReplicaDescriptor::all_of).unwrap_or_default())
    }

    /// The complete replicas of several objects: a dict from key to the list that `get_replica_desc` returns. Keys
    /// that were not found are absent.
    fn batch_get_replica_desc<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let held = argument("batch_get_replica_desc", "keys").texts(keys)?;
        let keys = held.strs()?;
        let found = PyDict::new(py);
        let Some(store) = self.store_for("batch_get_replica_desc") else { return Ok(found) };
        let located = py.detach(|| store.locate(&keys));
        for (key, location) in keys.iter().zip(&located) {
            if let Ok(location) = location {
                let replicas = ReplicaDescriptor::all_of(location);
                found.set_item(PyString::new(py, key), replicas)?;
            }
        }
        Ok(found)
    }

    /// The objects whose keys contain a match of the regular expression: a dict from key to the list that
    /// `get_replica_desc` returns. It grants no leases. The master looks at a page of keys at a time, and serves others
    /// in between.
    ///
    /// Raises ValueError if the expression is refused, and RuntimeError if the store is not set up or a dummy, or the
    /// master does not answer.
    fn query_by_regex<'py>(
        &self,
        py: Python<'py>,
        regex_pattern: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let pattern = argument("query_by_regex", "regex_pattern").text(regex_pattern)?;
        let found = PyDict::new(py);
        let mut next = Some(0);
        while let Some(cursor) = next {
            next = self.query_page(py, pattern, cursor, &found)?;
        }
        Ok(found)
    }

    /// One page of `query_by_regex`: the objects, and the cursor of the next page or None. The first cursor is 0. A
    /// page may be empty although more follow. Raises as `query_by_regex`.
    fn _query_page_by_regex<'py>(
        &self,
        py: Python<'py>,
        regex_pattern: &Bound<'py, PyAny>,
        cursor: u64,
    ) -> PyResult<(Bound<'py, PyDict>, Option<u64>)> {
        let pattern = argument("query_by_regex", "regex_pattern").text(regex_pattern)?;
        let found = PyDict::new(py);
        let next = self.query_page(py, pattern, cursor, &found)?;
        Ok((found, next))
    }

    /// Drops replicas of objects that this store put: all of them, or, if `segment_name` is given, those on segments
    /// of that name. An object without replicas is gone. Objects under a lease, incomplete objects, and objects that
    /// other clients put stay as they are.
    ///
    /// Returns a list of the keys whose replicas were dropped; the log says why others were not.
    #[pyo3(signature = (keys, segment_name=None), text_signature = "($self, keys, segment_name='')")]
    fn batch_replica_clear(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        segment_name: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        const NAME: &str = "batch_replica_clear";
        let held = argument(NAME, "keys").texts(keys)?;
        let keys = held.strs()?;
        let segment = segment_name.map(|name| argument(NAME, "segment_name").text(name));
        let segment = segment.transpose()?;
        let Some(store) = self.store_for(NAME) else { return Ok(Vec::new()) };
        let segment = segment.unwrap_or("");
        let results = py.detach(|| store.clear_replicas(&keys, segment));
        let cleared = keys.iter().zip(results).filter(|(key, result)| match result {
            Ok(()) => true,
            Err(code) => {
                log_kept(key, *code);
                false
            }
        });
        Ok(cleared.map(|(key, _)| key.to_string()).collect())
    }
}

impl MooncakeDistributedStore {
    /// Adds one page of a query to `found`. Returns the cursor of the next page.
    fn query_page(
        &self,
        py: Python<'_>,
        pattern: &str,
        cursor: u64,
        found: &Bound<'_, PyDict>,
    ) -> PyResult<Option<u64>> {
        const NAME: &str = "query_by_regex";
        let Some(store) = self.own_store_for(NAME) else {
            let text = format!("{NAME}(): the store is not set up, or is a dummy");
            return Err(PyRuntimeError::new_err(text));
        };
        match py.detach(|| store.list_page_by_regex(pattern, cursor)) {
            Ok((page, next)) => {
                for (key, location) in page {
                    found
                        .set_item(PyString::new(py, &key), ReplicaDescriptor::all_of(&location))?;
                }
                Ok(next)
            }
            Err(ErrorCode::InvalidParams) => {
                let text = format!(
                    "{NAME}(): the expression does not parse, is too long, or needs look-around or back-references"
                );
                Err(PyValueError::new_err(text))
            }
            Err(code) => Err(PyRuntimeError::new_err(format!("{NAME}(): {code}"))),
        }
    }
}

fn log_kept(key: &str, code: ErrorCode) {
    let text = format_args!("{}: {code}", ShownKey(key));
    log::warn_of_call("batch_replica_clear", code.name(), text);
}
