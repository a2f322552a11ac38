//! What a node does to take its segment back, and to lend another.

use mooncake_client::membership::Lent;
use mooncake_ops::{CallError, MoveError, Op, Step};
use mooncake_types::{
    DrainStatus, Epoch, ErrorCode, MountOutcome, Reply, Request, SegmentId, Tick,
};

use super::ask::{Ask, Rest};
use crate::desk::Desk;
use crate::errand::{Errand, Taken};
use crate::ids::Process;
use crate::task::{Task, leak};

/// Time between two questions how far a drain is.
const PACE_MS: u64 = 50;

/// How often the heartbeat is looked at, which has to take notice first.
const LOOK_MS: u64 = 5;

/// Has what lies in a segment moved elsewhere, until `until` at most.
pub(crate) fn drain(process: Process, id: SegmentId, until: Tick, desk: &Desk) -> Task {
    let ask = Ask::new(Request::DrainSegments { segments: vec![id] });
    Task::new(ask, vec![0], desk, move |reply, after| {
        let has_ended = match reply {
            Ok(Reply::Draining(report)) => {
                let is_done = report.status == DrainStatus::Succeeded;
                after.desk.meet("segments drained by their nodes", u64::from(is_done));
                report.status.has_ended()
            }
            _ => false,
        };
        if has_ended || after.now >= until {
            after.desk.errands.push((process, Errand::Leave));
            return None;
        }
        let rest = Rest { until: after.now.after_ms(PACE_MS) };
        Some(Task::new(rest, vec![0], after.desk, move |(), after| {
            Some(drain(process, id, until, after.desk))
        }))
    })
}

/// Waits until the heartbeat has taken notice, and until all promises are over.
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

/// Has the master unmount a segment, and waits for `grace_ms` after that.
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
                Step::Call(Request::UnmountSegment { id: self.id, grace_ms: self.grace_ms })
            }
            Some(Ok(())) if now < self.until => Step::Wait(self.until),
            Some(_) => Step::Done,
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.result = Some(match reply {
            // A master that forgot the segment has nothing to take back.
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

/// See [`OutlastPromises`]. The segment is served meanwhile.
pub(crate) fn outlast_promises(process: Process, taken: Taken, grace_ms: u64, desk: &Desk) -> Task {
    Task::new(OutlastPromises(taken), vec![0], desk, move |id, after| {
        after.desk.errands.push((process, Errand::Unmount { id, grace_ms }));
        None
    })
}

/// See [`Unmount`].
pub(crate) fn unmount(process: Process, id: SegmentId, grace_ms: u64, desk: &Desk) -> Task {
    let op = Unmount { id, grace_ms, until: Tick::ZERO, result: None };
    Task::new(op, vec![0], desk, move |result, after| {
        let left = Errand::Left { id, grace_ms, result };
        after.desk.errands.push((process, left));
        None
    })
}

/// Waits before something is lent again.
pub(crate) fn stay_away(process: Process, until: Tick, desk: &Desk) -> Task {
    Task::new(Rest { until }, vec![0], desk, move |(), after| {
        after.desk.errands.push((process, Errand::Come));
        None
    })
}

/// Has the master mount an empty segment.
pub(crate) fn come(process: Process, lent: Lent, seen_epoch: Epoch, desk: &Desk) -> Task {
    let (id, lent) = (lent.id, &leak(vec![lent])[0]);
    let mount = lent.mount(seen_epoch, true);
    Task::new(Ask::new(mount), vec![0], desk, move |reply, after| {
        let came = match reply {
            Ok(Reply::Mounted(MountOutcome::Ready)) => Errand::Came { id },
            Ok(Reply::Done(Err(_)) | Reply::Refused(_)) => Errand::Stay { id, is_unsure: false },
            // Whether it is mounted is unknown; the master must not go on placing objects in it.
            _ => Errand::Stay { id, is_unsure: true },
        };
        after.desk.errands.push((process, came));
        None
    })
}
