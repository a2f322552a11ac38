//! The deadline of a call.

use mooncake_types::{Tick, limits};

use crate::op::{CallError, MoveError, Op, Step};

/// The deadline of one call. A step that an operation asks for after it fails without being begun, which ends the
/// operation. A step that has begun ends by its own limits.
///
/// Each batch of a call has its own deadline, later by a second for each 16 MiB that it moves.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    limit_ms: u64,
    /// Absent before the first step.
    batch: Option<u64>,
    at: Tick,
}

impl Deadline {
    /// A time limit that begins with the first step.
    #[must_use]
    pub const fn of_ms(limit_ms: u64) -> Self {
        Self { limit_ms, batch: None, at: Tick::ZERO }
    }

    /// The time left at `now` for the last step, in milliseconds.
    #[must_use]
    pub const fn left_ms(&self, now: Tick) -> u64 {
        self.at.since_ms(now)
    }

    /// The next step of `op` that may still begin.
    pub fn next<'a>(&mut self, op: &mut impl Op<'a>, now: Tick) -> Step<'a> {
        loop {
            let step = op.next(now);
            if self.batch != Some(op.batch()) {
                self.batch = Some(op.batch());
                self.at = now.after_ms(self.limit_ms);
            }
            if now < self.at {
                self.at = self.at.after_ms(limits::time_to_move_ms(step.bytes()));
                return step;
            }
            match step {
                Step::Call(_) => {
                    op.on_reply(Err(CallError::TimedOut { after_ms: self.limit_ms }));
                }
                Step::Read(fetches) => op.on_transfer(broken(fetches.len())),
                Step::Write(_, deposits) => op.on_transfer(broken(deposits.len())),
                Step::Drop(discards) => op.on_transfer(broken(discards.len())),
                Step::Wait(_) | Step::Done => return step,
            }
        }
    }
}

fn broken(count: usize) -> Vec<Result<(), MoveError>> {
    vec![Err(MoveError::Broken); count]
}

impl Step<'_> {
    /// How many bytes it moves.
    fn bytes(&self) -> u64 {
        let lens = |lens: &mut dyn Iterator<Item = u64>| lens.fold(0, u64::saturating_add);
        match self {
            Self::Read(fetches) => lens(&mut fetches.iter().map(|fetch| fetch.range.len)),
            Self::Write(_, deposits) => lens(&mut deposits.iter().map(|it| it.range.len)),
            Self::Call(_) | Self::Drop(_) | Self::Wait(_) | Self::Done => 0,
        }
    }
}
