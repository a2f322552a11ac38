//! The tasks of a node that takes its segment back and lends another.

use mooncake_client::membership::Lent;
use mooncake_ops::{CallError, MoveError, Op, Step};
use mooncake_types::{
    DrainStatus, Epoch, ErrorCode, MountOutcome, Reply, Request, SegmentId, Tick,
};

use super::ask::{Ask, Rest};
use crate::errand::{LenderStep, Taken};
use crate::ids::Process;
use crate::run_state::RunState;
use crate::task::{Task, leak};

/// Time between two questions about a drain's progress.
const PACE_MS: u64 = 50;

/// How often a task checks whether the heartbeat has applied a change.
const LOOK_MS: u64 = 5;

/// Asks the master to drain a segment, until it is done or until `until`.
pub(crate) fn drain(process: Process, id: SegmentId, until: Tick, run_state: &RunState) -> Task {
    let ask = Ask::new(Request::DrainSegments { segments: vec![id] });
    Task::new(ask, vec![0], run_state, move |reply, after| {
        let has_ended = match reply {
            Ok(Reply::Draining(report)) => {
                let is_done = report.status == DrainStatus::Succeeded;
                after.run_state.meet("segments drained by their nodes", u64::from(is_done));
                report.status.has_ended()
            }
            _ => false,
        };
        if has_ended || after.now >= until {
            after.run_state.errands.push((process, LenderStep::Leave));
            return None;
        }
        let rest = Rest { until: after.now.after_ms(PACE_MS) };
        Some(Task::new(rest, vec![0], after.run_state, move |(), after| {
            Some(drain(process, id, until, after.run_state))
        }))
    })
}

/// Waits until the heartbeat has taken the segment back, and until all promises in it have ended.
struct OutlastPromises(Taken);

impl Op<'static> for OutlastPromises {
    type Output = SegmentId;

    fn next(&mut self, now: Tick) -> Step<'static> {
        match self.0.get() {
            None => Step::Wait(now.after_ms(LOOK_MS)),
            Some((_, over)) if now < over => Step::Wait(over),
            Some(_) => Step::Done,
        }
    }

    fn on_reply(&mut self, _reply: Result<Reply, CallError>) {
        unreachable!("nobody is asked");
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {
        unreachable!("no bytes are moved");
    }

    fn finish(self) -> SegmentId {
        self.0.get().expect("it was told of a segment").0
    }
}

/// Asks the master to unmount a segment, and waits for `grace_ms` after that.
struct Unmount {
    id: SegmentId,
    grace_ms: u64,
    until: Tick,
    result: Option<Result<(), ErrorCode>>,
}

impl Op<'static> for Unmount {
    type Output = Result<(), ErrorCode>;

    fn next(&mut self, now: Tick) -> Step<'static> {
        match self.result {
            None => {
                self.until = now.after_ms(self.grace_ms);
                Step::Call(Request::UnmountSegment {
                    id: self.id,
                    grace_ms: self.grace_ms,
                    failure: "",
                })
            }
            Some(Ok(())) if now < self.until => Step::Wait(self.until),
            Some(_) => Step::Done,
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.result = Some(match reply {
            // A master that does not know the segment need not unmount it.
            Ok(Reply::Done(Ok(()) | Err(ErrorCode::SegmentNotFound))) => Ok(()),
            Ok(Reply::Done(Err(code)) | Reply::Refused(code)) => Err(code),
            Ok(_) => Err(ErrorCode::InternalError),
            Err(error) => Err(error.code()),
        });
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {
        unreachable!("an unmount moves no bytes");
    }

    fn finish(self) -> Self::Output {
        self.result.expect("it was answered")
    }
}

/// Runs [`OutlastPromises`]. The node goes on serving the segment.
pub(crate) fn outlast_promises(
    process: Process,
    taken: Taken,
    grace_ms: u64,
    run_state: &RunState,
) -> Task {
    Task::new(OutlastPromises(taken), vec![0], run_state, move |id, after| {
        after.run_state.errands.push((process, LenderStep::Unmount { id, grace_ms }));
        None
    })
}

/// Runs [`Unmount`].
pub(crate) fn unmount(
    process: Process,
    id: SegmentId,
    grace_ms: u64,
    run_state: &RunState,
) -> Task {
    let op = Unmount { id, grace_ms, until: Tick::ZERO, result: None };
    Task::new(op, vec![0], run_state, move |result, after| {
        let left = LenderStep::Left { id, grace_ms, result };
        after.run_state.errands.push((process, left));
        None
    })
}

/// Waits before the node lends a segment again.
pub(crate) fn stay_away(process: Process, until: Tick, run_state: &RunState) -> Task {
    Task::new(Rest { until }, vec![0], run_state, move |(), after| {
        after.run_state.errands.push((process, LenderStep::Come));
        None
    })
}

/// Asks the master to mount an empty segment.
pub(crate) fn come(process: Process, lent: Lent, seen_epoch: Epoch, run_state: &RunState) -> Task {
    let (id, lent) = (lent.id, &leak(vec![lent])[0]);
    let mount = lent.mount(seen_epoch, true, None);
    Task::new(Ask::new(mount), vec![0], run_state, move |reply, after| {
        let came = match reply {
            Ok(Reply::Mounted(MountOutcome::Ready)) => LenderStep::Came { id },
            Ok(Reply::Done(Err(_)) | Reply::Refused(_)) => {
                LenderStep::Stay { id, is_unsure: false }
            }
            // The master may have mounted it. The node then unmounts it, so that no objects are placed there.
            _ => LenderStep::Stay { id, is_unsure: true },
        };
        after.run_state.errands.push((process, came));
        None
    })
}
