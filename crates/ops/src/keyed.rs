use mooncake_types::{ErrorCode, Reply, Request, Tick};

use crate::batches::{Batches, check_key, checked};
use crate::op::{CallError, MoveError, Op, Step, unexpected};
use crate::removal::predecessors::Predecessors;
use crate::retry::RetryPolicy;

/// What one kind of keyed question asks and how its reply reads.
pub trait Verb<'a> {
    /// The answer for one key.
    type Answer;

    /// Whether all of an object goes, if anything of it does.
    fn takes_all(&self) -> bool {
        true
    }

    /// Whether objects are read where the answers say that they lie.
    const LEADS_TO_BYTES: bool = false;

    /// The question about these keys.
    fn request(&self, keys: Vec<&'a str>) -> Request<'a>;

    /// The answers in a reply of the right kind to what was asked at that moment, or the reply itself.
    #[allow(clippy::type_complexity, reason = "a name would say no more than the type does")]
    fn answers(
        &self,
        asked_at: Tick,
        reply: Reply,
    ) -> Result<Vec<Result<Self::Answer, ErrorCode>>, Reply>;
}

/// A question about many keys that the master answers alone: one request per batch, in order.
#[derive(Debug)]
pub struct Keyed<'a, V: Verb<'a>> {
    verb: V,
    keys: &'a [&'a str],
    batches: Batches,
    asked: Vec<usize>,
    asked_at: Tick,
    /// The same was asked before, and answered well.
    is_repeated: bool,
    predecessors: Predecessors,
    /// What is older was not dropped, so often: those keys are asked about once more.
    undropped: u32,
    asks_again: bool,
    results: Vec<Result<V::Answer, ErrorCode>>,
}

impl<'a, V: Verb<'a>> Keyed<'a, V> {
    pub(super) fn with(verb: V, keys: &'a [&'a str]) -> Self {
        let (positions, results) = checked(keys, |key| check_key(key));
        Self {
            verb,
            keys,
            batches: Batches::new(positions),
            asked: Vec::new(),
            asked_at: Tick::ZERO,
            is_repeated: false,
            predecessors: Predecessors::default(),
            undropped: 0,
            asks_again: false,
            results,
        }
    }

    /// The keys for which the last reply was good; the next one is about these only.
    pub(super) fn good_keys(&mut self) -> Vec<&'a str> {
        self.asked.retain(|&position| self.results[position].is_ok());
        self.is_repeated = true;
        self.asked_keys()
    }

    pub(super) fn verb(&self) -> &V {
        &self.verb
    }

    fn asked_keys(&self) -> Vec<&'a str> {
        self.asked.iter().map(|&position| self.keys[position]).collect()
    }

    /// The first answers stand, unless something failed since.
    fn take_repeated(&mut self, answers: Vec<Result<V::Answer, ErrorCode>>) {
        for (&position, answer) in self.asked.iter().zip(answers) {
            if let Err(code) = answer {
                self.results[position] = Err(code);
            }
        }
    }

    fn fail_asked(&mut self, code: ErrorCode) {
        for &position in &self.asked {
            self.results[position] = Err(code);
        }
    }
}

impl<'a, V: Verb<'a>> Op<'a> for Keyed<'a, V> {
    type Output = Vec<Result<V::Answer, ErrorCode>>;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.predecessors.next(now) {
            return step;
        }
        let keys = self.keys;
        if std::mem::take(&mut self.asks_again) {
            self.asked_at = now;
            return Step::Call(self.verb.request(self.asked_keys()));
        }
        self.asked_at = now;
        self.asked = self.batches.take(|position| keys[position].len());
        self.is_repeated = false;
        self.undropped = 0;
        match self.asked.is_empty() {
            true => Step::Done,
            false => Step::Call(self.verb.request(self.asked_keys())),
        }
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                // The next request would fail the same way, each after its own wait.
                let rest = self.batches.take_rest();
                self.asked.extend(rest);
                return self.fail_asked(error.code());
            }
        };
        if let Reply::Located { predecessors, segments, .. } = &reply
            && V::LEADS_TO_BYTES
        {
            self.predecessors.on_named(predecessors, segments, &self.asked);
        }
        match self.verb.answers(self.asked_at, reply) {
            Ok(answers) if answers.len() == self.asked.len() && self.is_repeated => {
                self.take_repeated(answers);
            }
            Ok(answers) if answers.len() == self.asked.len() => {
                for (&position, answer) in self.asked.iter().zip(answers) {
                    self.results[position] = answer;
                }
            }
            Ok(_) => self.fail_asked(ErrorCode::InternalError),
            Err(reply) => self.fail_asked(unexpected(&reply)),
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let failed = self.predecessors.on_dropped(&results);
        if failed.is_empty() {
            return;
        }
        for &position in &failed {
            self.results[position] = Err(ErrorCode::ObjectReplicaBusy);
        }
        self.undropped += 1;
        self.asks_again = RetryPolicy::OLDER_VERSION.allows(self.undropped);
        if self.asks_again {
            self.predecessors.pause();
        }
        self.asked.retain(|position| failed.contains(position));
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}
