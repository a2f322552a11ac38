//! The methods that copy and move replicas in the background.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mooncake_binding::INVALID_PARAMS;
use mooncake_client::{ErrorCode, TaskId, TaskReport};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::replicate_config::member;
use crate::store::MooncakeDistributedStore;

/// A 128-bit id as Python sees it: its upper and its lower 64 bits.
type Halves = (u64, u64);

/// The progress of a copy or move task.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct QueryTaskResponse {
    report: TaskReport,
    asked_at: Duration,
}

#[pymethods]
impl QueryTaskResponse {
    /// An empty response, which is about no task.
    #[new]
    fn new() -> Self {
        Self { report: TaskReport::default(), asked_at: Duration::ZERO }
    }

    /// The task's id, as a tuple of two integers.
    #[getter]
    fn id(&self) -> Halves {
        halves(self.report.id.0)
    }

    /// `TaskType.REPLICA_COPY` or `TaskType.REPLICA_MOVE`.
    #[getter(r#type)]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "TaskType", self.report.kind as u8)
    }

    /// A `TaskStatus`.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        member(py, "TaskStatus", self.report.status as u8)
    }

    /// The time when the task was created, in milliseconds since 1970-01-01 UTC.
    #[getter]
    fn created_at_ms_epoch(&self) -> u64 {
        self.ms_epoch(self.report.created_ms_ago)
    }

    /// The time when the status last changed, in milliseconds since 1970-01-01 UTC.
    #[getter]
    fn last_updated_at_ms_epoch(&self) -> u64 {
        self.ms_epoch(self.report.updated_ms_ago)
    }

    /// The id of the client that executes the task, as a tuple of two integers, as far as it is told: the first 32 bits,
    /// then zeros. Two clients differ in these.
    #[getter]
    fn assigned_client(&self) -> Halves {
        halves(self.report.assigned.0)
    }

    /// Why the task failed; empty if it did not.
    #[getter]
    fn message(&self) -> &str {
        &self.report.message
    }

    fn __repr__(&self) -> String {
        let ((first, second), (of, client)) = (self.id(), self.assigned_client());
        format!(
            "QueryTaskResponse(id={first}-{second}, type={}, status={}, created_at={}, last_updated_at={}, \
             assigned_client={of}-{client}, message={:?})",
            self.report.kind as u8,
            self.report.status as u8,
            self.created_at_ms_epoch(),
            self.last_updated_at_ms_epoch(),
            self.report.message,
        )
    }
}

impl QueryTaskResponse {
    fn ms_epoch(&self, ms_ago: u64) -> u64 {
        let then = self.asked_at.saturating_sub(Duration::from_millis(ms_ago));
        u64::try_from(then.as_millis()).unwrap_or(u64::MAX)
    }
}

#[pymethods]
impl MooncakeDistributedStore {
    /// Starts a task that copies an object to the segments named in `targets`. Does not wait for it.
    ///
    /// Returns `(task_id, 0)`, or `((0, 0), code)` with a negative code. A task id is a tuple of two integers. Codes:
    ///
    /// - -704 if there is no such object, -703 if its put has not ended;
    /// - -600 for no target, for more than 32, or for a name that no segment has;
    /// - -600 if the store is not set up or is a dummy;
    /// - -708 if the object is being copied or moved already;
    /// - -1401 if too many tasks are pending.
    fn create_copy_task(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        targets: &Bound<'_, PyAny>,
    ) -> PyResult<(Halves, i32)> {
        let key = argument("create_copy_task", "key").text(key)?;
        let held = argument("create_copy_task", "targets").texts(targets)?;
        let targets = held.strs()?;
        let Some(store) = self.own_store_for("create_copy_task") else {
            return Ok(((0, 0), INVALID_PARAMS));
        };
        Ok(created(py.detach(|| store.create_copy_task(key, &targets))))
    }

    /// Starts a task that moves an object's replica from the segment named `source` to the segment named `target`.
    /// Does not wait for it.
    ///
    /// Returns as `create_copy_task`; also -710 if `source` holds no replica, and -711 if `target` holds one.
    fn create_move_task(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        source: &Bound<'_, PyAny>,
        target: &Bound<'_, PyAny>,
    ) -> PyResult<(Halves, i32)> {
        let key = argument("create_move_task", "key").text(key)?;
        let source = argument("create_move_task", "source").text(source)?;
        let target = argument("create_move_task", "target").text(target)?;
        let Some(store) = self.own_store_for("create_move_task") else {
            return Ok(((0, 0), INVALID_PARAMS));
        };
        Ok(created(py.detach(|| store.create_move_task(key, source, target))))
    }

    /// The progress of a task. `task_id` is the tuple of two integers that `create_copy_task` or `create_move_task`
    /// returned.
    ///
    /// Returns `(QueryTaskResponse, 0)`, or `(None, code)` with a negative code: -1400 if there is no such task, -600
    /// if the store is not set up or is a dummy.
    fn query_task(
        &self,
        py: Python<'_>,
        task_id: &Bound<'_, PyAny>,
    ) -> PyResult<(Option<QueryTaskResponse>, i32)> {
        let wanted = "a tuple of two integers from 0 to 2**64 - 1";
        let task_id_argument = argument("query_task", "task_id");
        let &[first, second] = task_id_argument.numbers(task_id)?.as_slice() else {
            return Err(task_id_argument.wrong(wanted, task_id));
        };
        let Some(store) = self.own_store_for("query_task") else {
            return Ok((None, INVALID_PARAMS));
        };
        let id = TaskId(u128::from(first) << 64 | u128::from(second));
        Ok(match py.detach(|| store.query_task(id)) {
            Ok(report) => {
                let asked_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                (Some(QueryTaskResponse { report, asked_at }), 0)
            }
            Err(code) => (None, code.number()),
        })
    }
}

fn halves(id: u128) -> Halves {
    ((id >> 64) as u64, id as u64)
}

fn created(result: Result<TaskId, ErrorCode>) -> (Halves, i32) {
    match result {
        Ok(id) => (halves(id.0), 0),
        Err(code) => ((0, 0), code.number()),
    }
}
