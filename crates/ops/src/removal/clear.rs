use mooncake_types::{ErrorCode, Reply, Request, Tick};

use super::erase::Erase;
use crate::keyed::Verb;

/// Removal of replicas of objects that this client put.
pub type ClearOp<'a> = Erase<'a, Clear<'a>>;

/// See [`ClearOp`].
#[derive(Clone, Copy, Debug)]
pub struct Clear<'a> {
    segment: &'a str,
}

impl<'a> ClearOp<'a> {
    /// Removes the replicas of `keys` that lie in segments of this name, or all of them if it is empty.
    #[must_use]
    pub fn new(keys: &'a [&'a str], segment: &'a str) -> Self {
        Self::with(Clear { segment }, keys)
    }
}

impl<'a> Verb<'a> for Clear<'a> {
    type Answer = ();

    fn takes_all(&self) -> bool {
        self.segment.is_empty()
    }

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::ClearReplicas { keys, segment: self.segment }
    }

    fn answers(&self, _: Tick, reply: Reply) -> Result<Vec<Result<(), ErrorCode>>, Reply> {
        match reply {
            Reply::Statuses(answers) => Ok(answers),
            other => Err(other),
        }
    }
}
