use mooncake_types::{
    CreateTask, ErrorCode, Reply, Request, TaskId, TaskKind, TaskOrders, TaskReport, Tick, limits,
};

use crate::batches::check_key;
use crate::op::{CallError, Op, Step, unexpected};

/// One question to the master about a task, and its answer.
#[derive(Debug)]
pub struct TaskOp<'a, A> {
    request: Option<Request<'a>>,
    read: fn(Reply) -> Result<A, Reply>,
    answer: Result<A, ErrorCode>,
}

impl<'a, A> TaskOp<'a, A> {
    fn new(request: Result<Request<'a>, ErrorCode>, read: fn(Reply) -> Result<A, Reply>) -> Self {
        let fault = request.as_ref().err().copied();
        let answer = Err(fault.unwrap_or(ErrorCode::InternalError));
        Self { request: request.ok(), read, answer }
    }
}

impl<'a> TaskOp<'a, TaskId> {
    /// Has an object copied to the segments of these names.
    #[must_use]
    pub fn copy(key: &'a str, targets: &[&'a str]) -> Self {
        Self::create(key, TaskKind::Copy, "", targets)
    }

    /// Has the replica in the segment `source` moved to the segment `target`, both by name.
    #[must_use]
    pub fn relocate(key: &'a str, source: &'a str, target: &'a str) -> Self {
        Self::create(key, TaskKind::Move, source, &[target])
    }

    fn create(key: &'a str, kind: TaskKind, source: &'a str, targets: &[&'a str]) -> Self {
        let is_name = |name: &&str| (1..=limits::MAX_NAME_BYTES).contains(&name.len());
        let source_is_there = kind == TaskKind::Copy || is_name(&source);
        let count_fits = (1..=limits::MAX_REPLICAS as usize).contains(&targets.len());
        let checked = match source_is_there && count_fits && targets.iter().all(is_name) {
            true => check_key(key),
            false => Err(ErrorCode::InvalidParams),
        };
        let create = || CreateTask { key, kind, source, targets: targets.to_vec() };
        Self::new(checked.map(|()| Request::CreateTask(create())), |reply| match reply {
            Reply::TaskCreated(id) => Ok(id),
            other => Err(other),
        })
    }
}

impl TaskOp<'_, TaskReport> {
    /// Asks how far a task is.
    #[must_use]
    pub fn query(id: TaskId) -> Self {
        Self::new(Ok(Request::QueryTask { id }), |reply| match reply {
            Reply::TaskReported(report) => Ok(report),
            other => Err(other),
        })
    }
}

impl TaskOp<'_, TaskOrders> {
    /// Fetches at most `limit` tasks for this client. If there are none, the master may wait `wait_ms` for one.
    #[must_use]
    pub fn fetch(limit: u32, wait_ms: u32) -> Self {
        Self::new(Ok(Request::FetchTasks { limit, wait_ms }), |reply| match reply {
            Reply::TasksFetched(orders) => Ok(orders),
            other => Err(other),
        })
    }
}

impl<'a, A> Op<'a> for TaskOp<'a, A> {
    type Output = Result<A, ErrorCode>;

    fn next(&mut self, _now: Tick) -> Step<'a> {
        self.request.take().map_or(Step::Done, Step::Call)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.answer = match reply {
            Ok(reply) => (self.read)(reply).map_err(|other| unexpected(&other)),
            Err(error) => Err(error.code()),
        };
    }

    fn finish(self) -> Self::Output {
        self.answer
    }
}
