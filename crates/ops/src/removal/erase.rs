use mooncake_types::{ErrorCode, Reply, Tick};

use super::dropping::{Dropped, Dropping};
use crate::keyed::{Keyed, Verb};
use crate::op::{CallError, MoveError, Op, Step};

/// A request that takes objects away, or replicas of them. A batch is over when no reader can find any of it, whatever
/// route it has, and no later leader: the nodes have dropped it.
#[derive(Debug)]
pub struct Erase<'a, V: Verb<'a, Answer = ()>> {
    keyed: Keyed<'a, V>,
    dropping: Dropping,
    /// How many keys the question that is asked again is about, without naming them.
    unnamed: usize,
}

impl<'a, V: Verb<'a, Answer = ()>> Erase<'a, V> {
    pub(crate) fn with(verb: V, keys: &'a [&'a str]) -> Self {
        Self { keyed: Keyed::with(verb, keys), dropping: Dropping::default(), unnamed: 0 }
    }
}

impl<'a, V: Verb<'a, Answer = ()>> Op<'a> for Erase<'a, V> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn batch(&self) -> u64 {
        self.keyed.batch()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if self.dropping.is_under_way() {
            if let Some(step) = self.dropping.next(now) {
                return step;
            }
            if self.dropping.end() == Dropped::Not {
                // The same request would take what was put since.
                match self.keyed.good_keys() {
                    keys if keys.is_empty() => self.dropping.give_up(),
                    keys if self.keyed.verb().takes_all() => {
                        return Step::Call(self.dropping.ask_again(keys));
                    }
                    // Another leader would give up the whole objects, if it were told which those are.
                    keys => {
                        self.unnamed = keys.len();
                        return Step::Call(self.dropping.ask_again(Vec::new()));
                    }
                }
            }
        }
        self.keyed.next(now)
    }

    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
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
        self.keyed.on_reply(now, reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.dropping.on_dropped(&results);
    }

    fn finish(self) -> Self::Output {
        self.keyed.finish()
    }
}
