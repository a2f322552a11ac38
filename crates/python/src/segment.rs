//! Segments that are mounted and unmounted while the store runs.

use std::path::Path;
use std::time::Duration;

use mooncake_client::{ErrorCode, SegmentId, Store, is_served_by_tcp, parse_segment_id};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::argument;
use crate::batch;
use crate::protocol::warn_of_protocol;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

type Value<'a, 'py> = &'a Bound<'py, PyAny>;
type Unmount = fn(&Store, &[SegmentId], Duration) -> Result<(), ErrorCode>;

#[pymethods]
impl MooncakeDistributedStore {
    /// Lends `size` bytes of the file at `path`, from `offset` on, which is a multiple of the page size. The file must
    /// not be cut short while it is mounted. Room for all of it is taken at once; where there is none, `ret` is -1.
    ///
    /// Returns a dict: `ret` is 0 or a negative code, `segment_ids` names what was mounted. `location` is accepted and
    /// changes nothing.
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
        let is_tcp = is_tcp(NAME, protocol)?;
        let store = self.own_store_for(NAME);
        let mounted = match store.filter(|_| is_tcp) {
            Some(store) => {
                py.detach(|| store.mount_segment(Path::new(path), size, offset, location))
            }
            None => Err(ErrorCode::InvalidParams),
        };
        mounted_dict(py, mounted)
    }

    /// Lends `size` bytes of new memory.
    ///
    /// Returns a dict as `mount_segment`, with `allocated_size`, the bytes lent.
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
        let is_tcp = is_tcp(NAME, protocol)?;
        let store = self.own_store_for(NAME);
        let mounted = match store.filter(|_| is_tcp) {
            Some(store) => py.detach(|| store.allocate_and_mount_segment(size, location)),
            None => Err(ErrorCode::InvalidParams),
        };
        let allocated = mounted.as_ref().map_or(0, |mounted| mounted.len_bytes);
        let answer = mounted_dict(py, mounted.map(|mounted| mounted.id))?;
        answer.set_item("allocated_size", allocated)?;
        Ok(answer)
    }

    /// Takes back segments that `mount_segment` lent. They take no more objects, and go on serving reads for
    /// `grace_period_seconds`.
    ///
    /// Returns 0; -600 if an id is none; -101 if a segment was not lent by `mount_segment`, and then nothing is taken
    /// back; or another negative code.
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

    /// Takes back segments that `allocate_and_mount_segment` lent, as `unmount_segment`, and frees their memory.
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

    /// Takes back the disk that this store lends. What lies there is no longer read, and gone when it is lent again.
    ///
    /// Returns 0; -101 if no disk is lent, -600 if the store is not set up.
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

/// Whether the transport is one that this build has; a refusal is logged.
fn is_tcp(name: &'static str, protocol: Option<Value<'_, '_>>) -> PyResult<bool> {
    let protocol =
        protocol.map(|protocol| argument(name, "protocol").text(protocol)).transpose()?;
    let protocol = protocol.unwrap_or("tcp");
    let served = is_served_by_tcp(protocol);
    warn_of_protocol(name, protocol);
    if !served {
        tracing::error!("{name}: protocol {protocol:?} is not supported in this build; use 'tcp'");
    }
    Ok(served)
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

/// The id as the C++ package prints it: its two halves as decimal numbers.
fn text_of(id: SegmentId) -> String {
    format!("{}-{}", (id.0 >> 64) as u64, id.0 as u64)
}
