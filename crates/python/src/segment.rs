//! The methods that mount and unmount segments while the store runs.

use std::path::Path;
use std::time::Duration;

use mooncake_binding::{INVALID_PARAMS, RDMA, batch, warn_of_protocol};
use mooncake_client::{ErrorCode, SegmentId, Store, is_served_by_tcp, parse_segment_id};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::argument;
use crate::store::{MooncakeDistributedStore, OwnStore};

type Value<'a, 'py> = &'a Bound<'py, PyAny>;
type Unmount = fn(&Store, &[SegmentId], Duration) -> Result<(), ErrorCode>;

#[pymethods]
impl MooncakeDistributedStore {
    /// Mounts a segment: lends `size` bytes of the file at `path`, from byte `offset` on, to the pool. `offset` must
    /// be a multiple of the page size. The pool overwrites the bytes. The call reserves disk space for all of them.
    /// The file must not be truncated while it is mounted: access to missing bytes ends the process.
    ///
    /// `protocol` is 'tcp'; 'rdma' and 'efa' are served by TCP, with a warning. `location` is accepted and changes
    /// nothing.
    ///
    /// Returns a dict. `segment_ids` is the list of the ids that were mounted. `ret` is 0 or a negative code:
    ///
    /// - -600 if an argument is wrong, or the store is not set up or is a dummy;
    /// - -1100 or -1101 if the file is missing or cannot be opened;
    /// - -1 if the file system has no room;
    /// - -102 if a process lends a part of the range already;
    /// - -1010 if the store lends 256 segments already.
    #[pyo3(signature = (path, size, offset=None, protocol=None, location=None))]
    #[pyo3(text_signature = "($self, path, size, offset=0, protocol='tcp', location='')")]
    #[allow(clippy::too_many_arguments, reason = "the signature is the C++ package's")]
    fn mount_segment<'py>(
        &self,
        py: Python<'py>,
        path: &Bound<'py, PyAny>,
        size: &Bound<'py, PyAny>,
        offset: Option<&Bound<'py, PyAny>>,
        protocol: Option<&Bound<'py, PyAny>>,
        location: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        const NAME: &str = "mount_segment";
        let path = argument(NAME, "path").text(path)?;
        let size = argument(NAME, "size").number(size)?;
        let offset = offset.map(|offset| argument(NAME, "offset").number(offset));
        let offset = offset.transpose()?.unwrap_or(0);
        let location =
            location.map(|location| argument(NAME, "location").text(location)).transpose()?;
        let location = location.unwrap_or("");
        let store = self.own_store_for(NAME);
        let is_served = is_served(NAME, protocol, store.as_ref())?;
        let mounted = match store.filter(|_| is_served) {
            Some(store) => {
                py.detach(|| store.mount_segment(Path::new(path), size, offset, location))
            }
            None => Err(ErrorCode::InvalidParams),
        };
        mounted_dict(py, mounted)
    }

    /// Mounts a segment of `size` bytes of new memory, rounded up to 4 MiB.
    ///
    /// Returns a dict as `mount_segment` does, with `allocated_size`: the number of bytes lent. `ret` is -1 if the
    /// system has no memory.
    #[pyo3(signature = (size, protocol=None, location=None))]
    #[pyo3(text_signature = "($self, size, protocol='tcp', location='')")]
    fn allocate_and_mount_segment<'py>(
        &self,
        py: Python<'py>,
        size: &Bound<'py, PyAny>,
        protocol: Option<&Bound<'py, PyAny>>,
        location: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        const NAME: &str = "allocate_and_mount_segment";
        let size = argument(NAME, "size").number(size)?;
        let location =
            location.map(|location| argument(NAME, "location").text(location)).transpose()?;
        let location = location.unwrap_or("");
        let store = self.own_store_for(NAME);
        let is_served = is_served(NAME, protocol, store.as_ref())?;
        let mounted = match store.filter(|_| is_served) {
            Some(store) => py.detach(|| store.allocate_and_mount_segment(size, location)),
            None => Err(ErrorCode::InvalidParams),
        };
        let allocated = mounted.as_ref().map_or(0, |mounted| mounted.len_bytes);
        let answer = mounted_dict(py, mounted.map(|mounted| mounted.id))?;
        answer.set_item("allocated_size", allocated)?;
        Ok(answer)
    }

    /// Unmounts segments of `mount_segment`. From now on they get no new objects. They serve reads for
    /// `grace_period_seconds` more; then their objects are lost.
    ///
    /// Returns 0; -600 if `segment_ids` holds a text that is no id; -101 if `mount_segment` did not mount one of them,
    /// and then nothing changes; or another negative code.
    #[pyo3(signature = (segment_ids, grace_period_seconds=None))]
    #[pyo3(text_signature = "($self, segment_ids, grace_period_seconds=0)")]
    fn unmount_segment(
        &self,
        py: Python<'_>,
        segment_ids: &Bound<'_, PyAny>,
        grace_period_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        self.take_back(
            py,
            "unmount_segment",
            (segment_ids, grace_period_seconds),
            Store::unmount_segment,
        )
    }

    /// Unmounts segments of `allocate_and_mount_segment` as `unmount_segment` does, and frees their memory. Returns as
    /// `unmount_segment`.
    #[pyo3(signature = (segment_ids, grace_period_seconds=None))]
    #[pyo3(text_signature = "($self, segment_ids, grace_period_seconds=0)")]
    fn unmount_and_free_segment(
        &self,
        py: Python<'_>,
        segment_ids: &Bound<'_, PyAny>,
        grace_period_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let arguments = (segment_ids, grace_period_seconds);
        self.take_back(py, "unmount_and_free_segment", arguments, Store::unmount_and_free_segment)
    }

    /// Unmounts the disk that this store lends. From now on it gets no new objects. It serves reads for
    /// `grace_period_seconds` more; then its objects are not read any more. They are deleted when the disk is lent
    /// again.
    ///
    /// Returns 0; -101 if the store lends no disk; -600 if it is not set up or is a dummy; or another negative code.
    #[pyo3(signature = (grace_period_seconds=None))]
    #[pyo3(text_signature = "($self, grace_period_seconds=0)")]
    fn unmount_local_disk_segment(
        &self,
        py: Python<'_>,
        grace_period_seconds: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        const NAME: &str = "unmount_local_disk_segment";
        let grace = grace_period_seconds
            .map(|seconds| argument(NAME, "grace_period_seconds").number(seconds));
        let grace = Duration::from_secs(grace.transpose()?.unwrap_or(0));
        let Some(store) = self.own_store_for(NAME) else { return Ok(INVALID_PARAMS) };
        let unmounted = py.detach(|| store.unmount_disk(grace));
        if unmounted == Err(ErrorCode::SegmentNotFound) {
            tracing::warn!("{NAME}: this store lends no disk");
        }
        Ok(batch::done(unmounted))
    }
}

impl MooncakeDistributedStore {
    fn take_back(
        &self,
        py: Python<'_>,
        name: &'static str,
        (segment_ids, grace_period_seconds): (Value<'_, '_>, Option<Value<'_, '_>>),
        unmount: Unmount,
    ) -> PyResult<i32> {
        let ids = argument(name, "segment_ids").texts(segment_ids)?;
        let ids = ids.strs()?;
        let grace = grace_period_seconds
            .map(|seconds| argument(name, "grace_period_seconds").number(seconds));
        let grace = Duration::from_secs(grace.transpose()?.unwrap_or(0));
        let Some(store) = self.own_store_for(name) else { return Ok(INVALID_PARAMS) };
        let ids: Result<Vec<SegmentId>, ErrorCode> =
            ids.iter().map(|id| parse_segment_id(id)).collect();
        Ok(batch::done(py.detach(|| unmount(&store, &ids?, grace))))
    }
}

/// Whether this build serves the protocol. Logs an error if not, and a warning if TCP serves it instead. What a store lends
/// is reached as its setup says: one-sided by NICs, if it has some.
fn is_served(
    name: &'static str,
    protocol: Option<Value<'_, '_>>,
    store: Option<&OwnStore>,
) -> PyResult<bool> {
    let protocol =
        protocol.map(|protocol| argument(name, "protocol").text(protocol)).transpose()?;
    let protocol = protocol.unwrap_or("tcp");
    let is_served = is_served_by_tcp(protocol);
    if protocol != RDMA || store.is_some_and(|store| !store.is_one_sided()) {
        warn_of_protocol(name, protocol);
    }
    if !is_served {
        tracing::error!("{name}: protocol {protocol:?} is not supported in this build; use 'tcp'");
    }
    Ok(is_served)
}

fn mounted_dict(
    py: Python<'_>,
    mounted: Result<SegmentId, ErrorCode>,
) -> PyResult<Bound<'_, PyDict>> {
    let (code, ids) = match mounted {
        Ok(id) => (0, vec![text_of(id)]),
        Err(code) => (code.number(), Vec::new()),
    };
    let answer = PyDict::new(py);
    answer.set_item("ret", code)?;
    answer.set_item("segment_ids", ids)?;
    Ok(answer)
}

/// The id as the C++ package prints it: its upper and lower 64 bits, in decimal, separated by a hyphen.
fn text_of(id: SegmentId) -> String {
    format!("{}-{}", (id.0 >> 64) as u64, id.0 as u64)
}
