use std::sync::Arc;

use mooncake_types::{ErrorCode, ExistOptions, Prefetch, Reply, Request, SegmentAddress, Tick};

use crate::batches::{Batches, check_key, checked};
use crate::dropping::predecessors::Predecessors;
use crate::get::Route;
use crate::location::ObjectLocation;
use crate::op::{CallError, MoveError, Op, Step, unexpected};
use crate::retry::RetryPolicy;

/// A question to the master about keys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyQuestion<'a> {
    Exist(ExistOptions),
    Locate,
    Hold,
    Prefetch,
    Remove { force: bool },
    Clear { segment: &'a str },
}

/// Takes the answers out of a reply to a request sent at that tick. Gives a reply of another kind back.
type Read<A> = fn(Tick, Reply) -> Result<Vec<Result<A, ErrorCode>>, Reply>;

/// A question about many keys, asked with one request for each batch, in order.
#[derive(Debug)]
pub struct KeyBatchOp<'a, A> {
    question: KeyQuestion<'a>,
    read: Read<A>,
    keys: &'a [&'a str],
    batches: Batches,
    asked: Vec<usize>,
    asked_at: Tick,
    /// The request repeats one that succeeded for these keys.
    is_repeated: bool,
    predecessors: Predecessors,
    /// How often nodes did not drop older versions. Those keys are asked about again.
    failed_drops: u32,
    asks_again: bool,
    results: Vec<Result<A, ErrorCode>>,
}

/// Asks whether objects exist, complete. The master grants a lease on each that does, unless the question is a probe.
pub type ExistOp<'a> = KeyBatchOp<'a, bool>;

/// Asks where objects lie. The master grants a lease on each that it finds.
pub type LocateOp<'a> = KeyBatchOp<'a, ObjectLocation>;

/// Fetches routes for later reads. The master grants a lease on each object that it finds.
pub type RoutesOp<'a> = KeyBatchOp<'a, Route>;

/// Has objects promoted to memory that lie on disks alone.
pub type PrefetchOp<'a> = KeyBatchOp<'a, Prefetch>;

impl<'a> KeyQuestion<'a> {
    fn request(self, keys: Vec<&'a str>) -> Request<'a> {
        match self {
            Self::Exist(options) => Request::ExistKey { keys, options },
            Self::Locate | Self::Hold => Request::GetReplicaList { keys },
            Self::Prefetch => Request::Prefetch { keys },
            Self::Remove { force } => Request::Remove { keys, force },
            Self::Clear { segment } => Request::ClearReplicas { keys, segment },
        }
    }

    /// Whether the caller reads objects by the answers.
    const fn leads_to_bytes(self) -> bool {
        matches!(self, Self::Hold)
    }

    /// Whether the request removes whole objects, not single replicas.
    pub(crate) const fn removes_whole_objects(self) -> bool {
        match self {
            Self::Clear { segment } => segment.is_empty(),
            _ => true,
        }
    }
}

impl<'a> ExistOp<'a> {
    /// A question about `keys` that leases what is there.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::with(keys, ExistOptions::default())
    }

    /// A question about `keys`.
    #[must_use]
    pub fn with(keys: &'a [&'a str], options: ExistOptions) -> Self {
        Self::asking(KeyQuestion::Exist(options), keys, |_, reply| match reply {
            Reply::Exist(answers) => Ok(answers),
            other => Err(other),
        })
    }
}

impl<'a> LocateOp<'a> {
    /// A question about `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::asking(KeyQuestion::Locate, keys, |_, reply| match reply {
            Reply::Located { results, segments, .. } => {
                let locate = |found| ObjectLocation::from_located(&found, &segments);
                Ok(results.into_iter().map(|result| result.and_then(locate)).collect())
            }
            other => Err(other),
        })
    }
}

impl<'a> RoutesOp<'a> {
    /// A question about `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::asking(KeyQuestion::Hold, keys, |asked_at, reply| match reply {
            Reply::Located { results, segments, lease_ms, .. } => {
                let segments: Arc<[SegmentAddress]> = segments.into();
                let lease_end = asked_at.after_ms(lease_ms);
                let route = |found| Route::new(found, &segments, lease_end);
                Ok(results.into_iter().map(|result| result.and_then(route)).collect())
            }
            other => Err(other),
        })
    }
}

impl<'a> PrefetchOp<'a> {
    /// Prefetches `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::asking(KeyQuestion::Prefetch, keys, |_, reply| match reply {
            Reply::Prefetched(answers) => Ok(answers),
            other => Err(other),
        })
    }
}

impl<'a, A> KeyBatchOp<'a, A> {
    pub(crate) fn asking(question: KeyQuestion<'a>, keys: &'a [&'a str], read: Read<A>) -> Self {
        let (positions, results) = checked(keys, |key| check_key(key));
        Self {
            question,
            read,
            keys,
            batches: Batches::new(positions),
            asked: Vec::new(),
            asked_at: Tick::ZERO,
            is_repeated: false,
            predecessors: Predecessors::default(),
            failed_drops: 0,
            asks_again: false,
            results,
        }
    }

    /// The keys for which the last reply was `Ok`. The next request, and its reply, are about these only.
    pub(super) fn good_keys(&mut self) -> Vec<&'a str> {
        self.asked.retain(|&position| self.results[position].is_ok());
        self.is_repeated = true;
        self.asked_keys()
    }

    pub(super) const fn question(&self) -> KeyQuestion<'a> {
        self.question
    }

    fn asked_keys(&self) -> Vec<&'a str> {
        self.asked.iter().map(|&position| self.keys[position]).collect()
    }

    /// Keeps the first answers, except for keys that fail now.
    fn take_repeated(&mut self, answers: Vec<Result<A, ErrorCode>>) {
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

impl<'a, A> Op<'a> for KeyBatchOp<'a, A> {
    type Output = Vec<Result<A, ErrorCode>>;

    fn batch(&self) -> u64 {
        self.batches.begun()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.predecessors.next(now) {
            return step;
        }
        self.asked_at = now;
        if !std::mem::take(&mut self.asks_again) {
            let keys = self.keys;
            self.asked = self.batches.take(|position| keys[position].len());
            self.is_repeated = false;
            self.failed_drops = 0;
            if self.asked.is_empty() {
                return Step::Done;
            }
        }
        Step::Call(self.question.request(self.asked_keys()))
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
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
            && self.question.leads_to_bytes()
        {
            self.predecessors.on_named(predecessors, segments, &self.asked);
        }
        match (self.read)(self.asked_at, reply) {
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
        self.failed_drops += 1;
        self.asks_again = RetryPolicy::OLDER_VERSION.allows(self.failed_drops);
        if self.asks_again {
            self.predecessors.pause();
        }
        self.asked.retain(|position| failed.contains(position));
    }

    fn finish(self) -> Self::Output {
        self.results
    }
}
