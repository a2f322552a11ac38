//! Copying and moving replicas in the background.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mooncake_client::{ErrorCode, TaskId, TaskReport};
use pyo3::prelude::*;

use crate::argument::argument;
use crate::replicate_config::member;
use crate::store::{INVALID_PARAMS, MooncakeDistributedStore};

/// A 128-bit id as callers know it: its upper and its lower half.
type Halves = (u64, u64);

/// How far a task is.
#[pyclass(frozen, module = "mooncake.store")]
pub(crate) struct QueryTaskResponse {
    report: TaskReport,
    asked_at: Duration,
}

#[pymethods]
impl QueryTaskResponse {
    /// A response about no task.
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

    /// When the task was created, in milliseconds since 1970.
    #[getter]
    fn created_at_ms_epoch(&self) -> u64 {
        self.ms_epoch(self.report.created_ms_ago)
    }

    /// When its status last changed, in milliseconds since 1970.
    #[getter]
    fn last_updated_at_ms_epoch(&self) -> u64 {
        self.ms_epoch(self.report.updated_ms_ago)
    }

    /// The id of the client that carries it out, as a tuple of two integers.
    #[getter]
    fn assigned_client(&self) -> Halves {
        halves(self.report.assigned.0)
    }

    /// Why it failed, or empty.
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
    /// Has the pool copy an object to the segments named in `targets`, in the background.
    ///
    /// Returns a tuple of the task's id and 0, or of (0, 0) and a negative code: -704 if there is no such object, -600
    /// if there is no such segment.
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

    /// Has the pool move an object's replica from the segment named `source` to the one named `target`, in the
    /// background.
    ///
    /// Returns as `create_copy_task`.
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

    /// How far is the task with this id, a tuple of two integers?
    ///
    /// Returns a tuple of a `QueryTaskResponse` and 0, or of None and a negative code: -1400 if there is no such task.
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
