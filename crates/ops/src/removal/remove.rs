use mooncake_types::{ErrorCode, Reply, Tick};

use crate::dropping::{Dropped, Dropping};
use crate::keyed::{Keyed, Question};
use crate::op::{CallError, MoveError, Op, Step};

/// Removal of objects by key, or of replicas of them. A batch is over when no reader can find any of it, whatever route it
/// has, and no later leader: the nodes have dropped it.
#[derive(Debug)]
pub struct RemoveOp<'a> {
    keyed: Keyed<'a, ()>,
    dropping: Dropping,
    /// How many keys the question that is asked again is about, without naming them.
    unnamed: usize,
}

impl<'a> RemoveOp<'a> {
    /// Removes `keys`, leased ones only if `force` is set.
    #[must_use]
    pub fn new(keys: &'a [&'a str], force: bool) -> Self {
        Self::asking(Question::Remove { force }, keys)
    }

    /// Removes the replicas of `keys` that lie in segments of this name, or all of them if it is empty. This client must have
    /// put the objects.
    #[must_use]
    pub fn replicas(keys: &'a [&'a str], segment: &'a str) -> Self {
        Self::asking(Question::Clear { segment }, keys)
    }

    fn asking(question: Question<'a>, keys: &'a [&'a str]) -> Self {
        let keyed = Keyed::asking(question, keys, |_, reply| match reply {
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
            // The same request would take what was put since.
            match self.keyed.good_keys() {
                keys if keys.is_empty() => self.dropping.give_up(),
                keys if self.keyed.question().removes_whole_objects() => {
                    return Step::Call(self.dropping.ask_again(keys));
                }
                // Another leader would give up the whole objects, if it were told which those are.
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
