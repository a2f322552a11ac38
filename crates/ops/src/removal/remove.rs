use mooncake_types::{ErrorCode, Reply, Request, Tick};

use super::erase::Erase;
use crate::keyed::Verb;

/// Removal of objects by key.
pub type RemoveOp<'a> = Erase<'a, Remove>;

/// See [`RemoveOp`].
#[derive(Clone, Copy, Debug)]
pub struct Remove {
    force: bool,
}

impl<'a> RemoveOp<'a> {
    /// Removes `keys`, leased ones only if `force` is set.
    #[must_use]
    pub fn new(keys: &'a [&'a str], force: bool) -> Self {
        Self::with(Remove { force }, keys)
    }
}

impl<'a> Verb<'a> for Remove {
    type Answer = ();

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::Remove { keys, force: self.force }
    }

    fn answers(&self, _: Tick, reply: Reply) -> Result<Vec<Result<(), ErrorCode>>, Reply> {
        match reply {
            Reply::Statuses(answers) => Ok(answers),
            other => Err(other),
        }
    }
}
