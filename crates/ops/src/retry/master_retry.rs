use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Reply, Request, ScanAction, Tick};

use super::policy::{Retry, RetryPolicy};
use crate::op::CallError;

/// The result of an end of a put whose outcome is unknown.
pub(crate) const UNKNOWN_END: ErrorCode = ErrorCode::RpcFail;

/// One request to the master, sent again while a new leader is still recovering.
///
/// `PutEnd` is also sent again after the connection broke: the bytes are in place, and a new leader accepts it as the
/// old one would. If that leader finds no such put, the outcome is unknown: see [`MasterRetry::read`].
#[derive(Clone, Copy, Debug)]
pub struct MasterRetry {
    retry: Retry,
    /// An earlier attempt may have taken effect.
    may_be_taken: bool,
}

impl Default for MasterRetry {
    fn default() -> Self {
        Self { retry: Retry::new(RetryPolicy::NEW_LEADER), may_be_taken: false }
    }
}

impl MasterRetry {
    /// When to send the request again after this reply at `now`; `None` if the reply is final.
    pub fn again_at(
        &mut self,
        now: Tick,
        request: &Request<'_>,
        reply: &Result<Reply, CallError>,
    ) -> Option<Tick> {
        let is_due = match reply {
            Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus)) => request.changes_objects(),
            Err(CallError::Unreachable { .. }) => matches!(request, Request::PutEnd { .. }),
            _ => false,
        };
        let at = if is_due { self.retry.again_at(now) } else { None }?;
        self.may_be_taken |= reply.is_err();
        Some(at)
    }

    /// Reads a final reply. An end that finds no put, after an attempt that may have taken effect, has an unknown
    /// outcome: the object may have been published, and removed since.
    pub fn read(&self, reply: Result<Reply, CallError>) -> Result<Reply, CallError> {
        if !self.may_be_taken || is_broken(Rule::LostEndsAreUnknown) {
            return reply;
        }
        let read = |result| match result {
            Err(ErrorCode::ObjectNotFound) => Err(UNKNOWN_END),
            result => result,
        };
        reply.map(|reply| match reply {
            Reply::Statuses(results) => Reply::Statuses(results.into_iter().map(read).collect()),
            Reply::Remaining { results, remains } => {
                Reply::Remaining { results: results.into_iter().map(read).collect(), remains }
            }
            other => other,
        })
    }
}

/// Whether the master may carry out the request twice without harm.
#[must_use]
pub fn is_idempotent(request: &Request<'_>) -> bool {
    match request {
        Request::Ping { .. }
        | Request::Leave { .. }
        | Request::MountSegment(_)
        | Request::FetchDrops { .. }
        | Request::Retract { .. }
        | Request::ReportLosses { .. }
        | Request::GetReplicaList { .. }
        | Request::RenewRoutes { .. }
        | Request::Dropped { .. }
        | Request::ExistKey { .. }
        | Request::PrefixLen { .. }
        | Request::Prefetch { .. }
        | Request::DrainSegments { .. }
        | Request::ListSegments { .. }
        | Request::QueryTask { .. } => true,
        Request::Scan(scan) => scan.action == ScanAction::List,
        // A second success report of a move would confirm a drop of its source that has not happened.
        Request::EndTask { outcome, .. } => outcome.is_err(),
        // The first attempt may have been carried out: the caller has to handle the answer to a repetition.
        Request::PutEnd { .. }
        | Request::ReportInventory(_)
        | Request::ReportChanges(_)
        | Request::UnmountSegment { .. }
        | Request::PutStart(_)
        | Request::PutRevoke { .. }
        | Request::Remove { .. }
        | Request::ClearReplicas { .. }
        | Request::CreateTask(_)
        | Request::FetchTasks { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<Reply, CallError> {
        Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus))
    }

    fn gone() -> Result<Reply, CallError> {
        Err(CallError::Unreachable { reason: "gone".to_owned() })
    }

    fn end() -> Request<'static> {
        Request::PutEnd { puts: Vec::new() }
    }

    #[test]
    fn only_what_a_new_leader_puts_off_is_asked_again() {
        let remove = || Request::Remove { keys: Vec::new(), force: true };
        let get = || Request::GetReplicaList { keys: Vec::new() };
        let timed_out = || Err(CallError::TimedOut { after_ms: 1 });
        let full = || Ok(Reply::Refused(ErrorCode::NoAvailableHandle));
        for (request, reply, is_asked_again) in [
            (remove(), refused(), true),
            (get(), refused(), false),
            (end(), gone(), true),
            (remove(), gone(), false),
            (end(), timed_out(), false),
            (end(), full(), false),
            (end(), Ok(Reply::Statuses(Vec::new())), false),
        ] {
            let at = MasterRetry::default().again_at(Tick::ZERO, &request, &reply);
            assert_eq!(at.is_some(), is_asked_again, "{request:?} {reply:?}");
        }
    }

    #[test]
    fn the_end_of_a_put_that_finds_nothing_is_unknown_if_it_may_have_been_taken() {
        let replies = || {
            let results = || vec![Ok(()), Err(ErrorCode::ObjectNotFound)];
            let remains = mooncake_types::Remains::default();
            [Reply::Statuses(results()), Reply::Remaining { results: results(), remains }]
        };
        let results = |reply: Result<Reply, CallError>| match reply {
            Ok(Reply::Statuses(results) | Reply::Remaining { results, .. }) => results,
            other => panic!("{other:?}"),
        };
        let mut retry = MasterRetry::default();
        assert!(retry.again_at(Tick(1), &end(), &refused()).is_some(), "it was not taken");
        for reply in replies() {
            assert_eq!(retry.read(Ok(reply.clone())), Ok(reply));
        }
        assert!(retry.again_at(Tick(2), &end(), &gone()).is_some());
        for reply in replies() {
            assert_eq!(results(retry.read(Ok(reply))), vec![Ok(()), Err(UNKNOWN_END)]);
        }
        assert_eq!(retry.read(gone()), gone());
    }
}
