use mooncake_types::{ErrorCode, Reply, Request};

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

impl Verb for Exist {
    type Answer = bool;

    fn request<'a>(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::ExistKey { keys }
    }

    fn answers(&self, reply: Reply) -> Result<Vec<Result<bool, ErrorCode>>, Reply> {
        match reply {
            Reply::Exist(answers) => Ok(answers),
            other => Err(other),
        }
    }
}
