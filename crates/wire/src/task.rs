//! The messages about tasks: orders, as columns, and reports.

use bytes::Bytes;
use mooncake_types::limits::{MAX_FETCHED_TASKS, MAX_TASK_MESSAGE_BYTES};
use mooncake_types::{
    ClientId, Placement, TaskId, TaskKind, TaskOrder, TaskOrders, TaskReport, TaskStatus, Version,
};

use crate::{DecodeError, column, generated as proto, replica_lists};

pub(crate) fn from_kind(kind: TaskKind) -> i32 {
    match kind {
        TaskKind::Copy => proto::TaskKind::Copy.into(),
        TaskKind::Move => proto::TaskKind::Move.into(),
    }
}

pub(crate) fn to_kind(number: i32) -> Result<TaskKind, DecodeError> {
    match proto::TaskKind::try_from(number) {
        Ok(proto::TaskKind::Copy) => Ok(TaskKind::Copy),
        Ok(proto::TaskKind::Move) => Ok(TaskKind::Move),
        Err(_) => Err(DecodeError::OutOfRange { what: "kind", value: number.into() }),
    }
}

fn from_status(status: TaskStatus) -> i32 {
    match status {
        TaskStatus::Pending => proto::TaskStatus::Pending.into(),
        TaskStatus::Processing => proto::TaskStatus::Processing.into(),
        TaskStatus::Failed => proto::TaskStatus::Failed.into(),
        TaskStatus::Success => proto::TaskStatus::Success.into(),
    }
}

fn to_status(number: i32) -> Result<TaskStatus, DecodeError> {
    match proto::TaskStatus::try_from(number) {
        Ok(proto::TaskStatus::Pending) => Ok(TaskStatus::Pending),
        Ok(proto::TaskStatus::Processing) => Ok(TaskStatus::Processing),
        Ok(proto::TaskStatus::Failed) => Ok(TaskStatus::Failed),
        Ok(proto::TaskStatus::Success) => Ok(TaskStatus::Success),
        Err(_) => Err(DecodeError::OutOfRange { what: "status", value: number.into() }),
    }
}

fn to_task_id(id: &[u8]) -> Result<TaskId, DecodeError> {
    column::to_id("task_id", id).map(TaskId)
}

pub(crate) fn from_created(id: TaskId) -> proto::CreateTaskResponse {
    proto::CreateTaskResponse { task_id: column::from_id(id.0) }
}

pub(crate) fn to_created(message: &proto::CreateTaskResponse) -> Result<TaskId, DecodeError> {
    to_task_id(&message.task_id)
}

pub(crate) fn from_report(report: &TaskReport) -> proto::QueryTaskResponse {
    let end = report.message.floor_char_boundary(MAX_TASK_MESSAGE_BYTES);
    proto::QueryTaskResponse {
        task_id: column::from_id(report.id.0),
        kind: from_kind(report.kind),
        status: from_status(report.status),
        created_ms_ago: report.created_ms_ago,
        updated_ms_ago: report.updated_ms_ago,
        assigned_client_id: column::from_id(report.assigned.0),
        message: report.message[..end].to_owned(),
    }
}

pub(crate) fn to_report(message: proto::QueryTaskResponse) -> Result<TaskReport, DecodeError> {
    if message.message.len() > MAX_TASK_MESSAGE_BYTES {
        return Err(DecodeError::TooMany { what: "message", limit: MAX_TASK_MESSAGE_BYTES });
    }
    Ok(TaskReport {
        id: to_task_id(&message.task_id)?,
        kind: to_kind(message.kind)?,
        status: to_status(message.status)?,
        created_ms_ago: message.created_ms_ago,
        updated_ms_ago: message.updated_ms_ago,
        assigned: ClientId(column::to_id("assigned_client_id", &message.assigned_client_id)?),
        message: message.message,
    })
}

pub(crate) fn from_orders(tasks: &TaskOrders) -> proto::FetchTasksResponse {
    let orders = &tasks.orders;
    let rows: Vec<_> = orders.iter().flat_map(from_replicas).map(Ok).collect();
    proto::FetchTasksResponse {
        keys: orders.iter().map(|order| order.key.clone().into()).collect(),
        task_ids: column::from_ids(orders.iter().map(|order| order.id.0)),
        replica_lists: Some(replica_lists::from_rows(rows.into_iter(), &tasks.segments)),
        value_lengths: orders.iter().map(|order| order.len).collect(),
        attributes: column::from_attributes(orders.iter().map(|order| &order.attributes[..])),
    }
}

fn from_replicas(order: &TaskOrder) -> [(Version, &[Placement]); 2] {
    [(order.version, &order.source), (order.grant, &order.targets)]
}

pub(crate) fn to_orders(message: &proto::FetchTasksResponse) -> Result<TaskOrders, DecodeError> {
    let count = message.keys.len();
    let ids = column::to_ids("task_ids", &message.task_ids, count)?;
    column::check_len("value_lengths", &message.value_lengths, count)?;
    let lists = message.replica_lists.as_ref();
    let lists = lists.ok_or(DecodeError::Missing { what: "replica_lists" })?;
    column::check_len("status_codes", &lists.status_codes, 2 * count)?;
    let row = |version, placements| (version, placements);
    let limit = 2 * MAX_FETCHED_TASKS as usize;
    let (rows, segments) = replica_lists::to_rows(lists, limit, row)?;
    let mut rows = rows.into_iter().map(|row| {
        row.map_err(|code| DecodeError::OutOfRange {
            what: "status_codes",
            value: code.number().into(),
        })
    });
    let mut attributes = column::to_attributes(&message.attributes, count)?;
    let mut order = |((key, id), &len): (((usize, &Bytes), u128), &u64)| {
        let mut replica = || rows.next().expect("two rows for each task");
        let ((version, source), (grant, targets)) = (replica()?, replica()?);
        let key = column::to_key(key)?.to_owned();
        let attributes = attributes.next().unwrap_or_default().to_vec();
        Ok(TaskOrder { id: TaskId(id), key, version, len, grant, source, targets, attributes })
    };
    let keys = message.keys.iter().enumerate().zip(ids).zip(&message.value_lengths);
    let orders = keys.map(&mut order).collect::<Result<_, DecodeError>>()?;
    Ok(TaskOrders { orders, segments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_kinds_and_statuses_are_those_of_the_words() {
        for kind in [TaskKind::Copy, TaskKind::Move] {
            assert_eq!((from_kind(kind), to_kind(from_kind(kind))), (kind as i32, Ok(kind)));
        }
        let statuses =
            [TaskStatus::Pending, TaskStatus::Processing, TaskStatus::Failed, TaskStatus::Success];
        for status in statuses {
            let number = from_status(status);
            assert_eq!((number, to_status(number)), (status as i32, Ok(status)));
        }
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = format!("{}ä{}", "x".repeat(MAX_TASK_MESSAGE_BYTES - 1), "y".repeat(9));
        let cut = "x".repeat(MAX_TASK_MESSAGE_BYTES - 1);
        let sent = TaskReport { message, ..TaskReport::default() };
        let received = TaskReport { message: cut, ..TaskReport::default() };
        assert_eq!(to_report(from_report(&sent)), Ok(received));
    }
}
