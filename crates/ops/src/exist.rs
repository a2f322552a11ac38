use mooncake_types::{ErrorCode, Reply, Request, Tick};

use super::{Keyed, Verb};

/// Do these objects exist, complete? Grants a lease on each that does.
pub type ExistOp<'a> = Keyed<'a, Exist>;

/// See [`ExistOp`].
#[derive(Clone, Copy, Debug)]
pub struct Exist;

impl<'a> ExistOp<'a> {
    /// A question about `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::with(Exist, keys)
    }
}

impl<'a> Verb<'a> for Exist {
    type Answer = bool;

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::ExistKey { keys }
    }

    fn answers(&self, _: Tick, reply: Reply) -> Result<Vec<Result<bool, ErrorCode>>, Reply> {
        match reply {
            Reply::Exist(answers) => Ok(answers),
            other => Err(other),
        }
    }
}
