use mooncake_types::{ErrorCode, Reply, Request, Tick};

use crate::batches::{Batches, check_key};
use crate::op::{CallError, Op, Step, unexpected};

/// Counts the objects that exist, complete, from the first key on without a gap. The master grants a lease on each from
/// a position on.
///
/// A list may take several requests. Each is sent only if all keys of the one before exist.
#[derive(Debug)]
pub struct PrefixLenOp<'a> {
    keys: &'a [&'a str],
    batches: Batches,
    leased_from: usize,
    asked: usize,
    found: Result<u64, ErrorCode>,
    is_over: bool,
}

impl<'a> PrefixLenOp<'a> {
    /// Counts along `keys`, and leases the objects from position `leased_from` on. Fails if a key is empty or too long.
    #[must_use]
    pub fn new(keys: &'a [&'a str], leased_from: usize) -> Self {
        let checked = keys.iter().try_for_each(|key| check_key(key));
        Self {
            keys,
            batches: Batches::new((0..keys.len()).collect()),
            leased_from,
            asked: 0,
            found: checked.map(|()| 0),
            is_over: checked.is_err(),
        }
    }

    fn on_counted(&mut self, count: u32) {
        let count = count as usize;
        match &mut self.found {
            Ok(found) if count <= self.asked => *found += count as u64,
            found => *found = Err(ErrorCode::InternalError),
        }
        self.is_over = count != self.asked;
    }

    fn fail(&mut self, code: ErrorCode) {
        self.found = Err(code);
        self.is_over = true;
    }
}

impl<'a> Op<'a> for PrefixLenOp<'a> {
    type Output = Result<u64, ErrorCode>;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, _now: Tick) -> Step<'a> {
        if self.is_over {
            return Step::Done;
        }
        let keys = self.keys;
        let asked = self.batches.take(|position| keys[position].len());
        self.asked = asked.len();
        match asked.is_empty() {
            true => Step::Done,
            false => {
                let first = asked[0];
                let leased_from = self.leased_from.saturating_sub(first).min(asked.len()) as u32;
                let keys = asked.into_iter().map(|position| keys[position]).collect();
                Step::Call(Request::PrefixLen { keys, leased_from })
            }
        }
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::PrefixLen(count)) => self.on_counted(count),
            Ok(reply) => self.fail(unexpected(&reply)),
            Err(error) => self.fail(error.code()),
        }
    }

    fn finish(self) -> Self::Output {
        self.found
    }
}
