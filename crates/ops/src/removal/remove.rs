use mooncake_types::{ErrorCode, Reply, Tick};

use crate::dropping::{Dropped, Dropping};
use crate::keyed::{KeyBatchOp, KeyQuestion};
use crate::op::{CallError, MoveError, Op, Step};

/// Removes objects by key, or some of their replicas. A batch ends once the nodes have dropped the entries. After
/// that no reader finds them by any route, and no later leader does.
#[derive(Debug)]
pub struct RemoveOp<'a> {
    keyed: KeyBatchOp<'a, ()>,
    dropping: Dropping,
    /// The number of keys that a repeated question is about but does not name.
    unnamed: usize,
}

impl<'a> RemoveOp<'a> {
    /// Removes `keys`, leased ones only if `force` is set.
    #[must_use]
    pub fn new(keys: &'a [&'a str], force: bool) -> Self {
        Self::asking(KeyQuestion::Remove { force }, keys)
    }

    /// Removes the replicas of `keys` that lie in segments of this name, or all of them if it is empty. This client
    /// must have put the objects.
    #[must_use]
    pub fn replicas(keys: &'a [&'a str], segment: &'a str) -> Self {
        Self::asking(KeyQuestion::Clear { segment }, keys)
    }

    fn asking(question: KeyQuestion<'a>, keys: &'a [&'a str]) -> Self {
        let keyed = KeyBatchOp::asking(question, keys, |_, reply| match reply {
            Reply::Statuses(answers) => Ok(answers),
            other => Err(other),
        });
        Self { keyed, dropping: Dropping::default(), unnamed: 0 }
    }
}

impl<'a> Op<'a> for RemoveOp<'a> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn batch(&self) -> u64 {
        self.keyed.batch()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.dropping.next(now) {
            return step;
        }
        if self.dropping.end() == Dropped::Not {
            // Repeating the removal would also remove what was put since, so the question is about the drops only.
            match self.keyed.good_keys() {
                keys if keys.is_empty() => self.dropping.give_up(),
                keys if self.keyed.question().removes_whole_objects() => {
                    return Step::Call(self.dropping.ask_again(keys));
                }
                // No keys are named: another leader would remove the named objects as a whole.
                keys => {
                    self.unnamed = keys.len();
                    return Step::Call(self.dropping.ask_again(Vec::new()));
                }
            }
        }
        self.keyed.next(now)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        if self.dropping.is_under_way() {
            return self.dropping.on_told(reply.is_ok());
        }
        self.dropping.on_reply(&reply);
        let unnamed = vec![Ok(()); std::mem::take(&mut self.unnamed)];
        let reply = reply.map(|reply| match reply {
            Reply::Remaining { results, .. } | Reply::Statuses(results) if results.is_empty() => {
                Reply::Statuses(unnamed)
            }
            Reply::Remaining { results, .. } => Reply::Statuses(results),
            other => other,
        });
        self.keyed.on_reply(reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.dropping.on_dropped(&results);
    }

    fn finish(self) -> Self::Output {
        self.keyed.finish()
    }
}
