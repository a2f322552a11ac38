use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{ErrorCode, Reply, Request, ScanAction, Tick};

use super::CallError;

/// How long a request is asked again, in milliseconds.
const LONGEST_MS: u64 = 1_500;

/// The first pause, in milliseconds, and the longest.
const PAUSES_MS: (u64, u64) = (20, 160);

/// The result of the end of a put that may have been taken or not.
pub(super) const UNKNOWN_END: ErrorCode = ErrorCode::RpcFail;

/// Whether a request is to be asked again because its master is only beginning, or has just changed, or because the node
/// that is asked has not heard of that yet.
///
/// A new leader changes nothing before it knows what the nodes hold, which takes it a second at most. And the end of a put
/// may be asked for again, whatever became of it: the bytes are in place, and a new leader takes it as the old one did.
/// If it then finds nothing to end, that says little: see [`Insistence::read`].
#[derive(Clone, Copy, Debug)]
pub struct Insistence {
    until: Option<Tick>,
    pause_ms: u64,
    /// The request may have been taken, and was asked again.
    may_be_taken: bool,
}

impl Default for Insistence {
    fn default() -> Self {
        Self { until: None, pause_ms: PAUSES_MS.0, may_be_taken: false }
    }
}

impl Insistence {
    /// When to ask again what was answered like this at `now`; nothing if the answer stands.
    pub fn again_at(
        &mut self,
        now: Tick,
        request: &Request<'_>,
        reply: &Result<Reply, CallError>,
    ) -> Option<Tick> {
        let is_due = match reply {
            Ok(Reply::Refused(ErrorCode::UnavailableInCurrentStatus)) => changes_objects(request),
            Err(CallError::Unreachable { .. }) => matches!(request, Request::PutEnd { .. }),
            _ => false,
        };
        let at = self.after_pause(now).filter(|_| is_due)?;
        self.may_be_taken |= reply.is_err();
        Some(at)
    }

    /// When to ask a node again that was asked at `now` and had not met the leader yet; nothing if it had its time.
    pub fn after_pause(&mut self, now: Tick) -> Option<Tick> {
        let until = *self.until.get_or_insert(now.after_ms(LONGEST_MS));
        let at = now.after_ms(self.pause_ms);
        if at > until {
            return None;
        }
        self.pause_ms = (self.pause_ms * 2).min(PAUSES_MS.1);
        Some(at)
    }

    /// What a reply says that stands. The end of a put that may have been taken before, and finds nothing now, may have
    /// made an object that was removed since: its outcome is unknown.
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

/// Whether a request is one of those that a new leader refuses at first.
fn changes_objects(request: &Request<'_>) -> bool {
    match request {
        Request::PutStart(_)
        | Request::PutEnd { .. }
        | Request::PutRevoke { .. }
        | Request::Remove { .. }
        | Request::ClearReplicas { .. }
        | Request::Retract { .. }
        | Request::CreateTask(_) => true,
        Request::Scan(scan) => scan.action != ScanAction::List,
        _ => false,
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
    fn a_master_that_begins_is_asked_for_a_second_and_a_half() {
        let (mut insistence, mut now, mut pauses) = (Insistence::default(), Tick(100), Vec::new());
        while let Some(at) = insistence.again_at(now, &end(), &refused()) {
            pauses.push(at.since_ms(now));
            now = at;
        }
        assert_eq!(pauses[..5], [20, 40, 80, 160, 160]);
        assert!((1_600 - 160..=1_600).contains(&now.0), "{now:?}");
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
            let at = Insistence::default().again_at(Tick::ZERO, &request, &reply);
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
        let mut insistence = Insistence::default();
        assert!(insistence.again_at(Tick(1), &end(), &refused()).is_some(), "it was not taken");
        for reply in replies() {
            assert_eq!(insistence.read(Ok(reply.clone())), Ok(reply));
        }
        assert!(insistence.again_at(Tick(2), &end(), &gone()).is_some());
        for reply in replies() {
            assert_eq!(results(insistence.read(Ok(reply))), vec![Ok(()), Err(UNKNOWN_END)]);
        }
        assert_eq!(insistence.read(gone()), gone());
    }
}
