use mooncake_types::{ErrorCode, Prefetch, Reply, Request, Tick};

use crate::keyed::{Keyed, Verb};

/// Has objects copied to memory where they lie on disks alone.
pub type PrefetchOp<'a> = Keyed<'a, ToMemory>;

/// See [`PrefetchOp`].
#[derive(Clone, Copy, Debug)]
pub struct ToMemory;

impl<'a> PrefetchOp<'a> {
    /// Prefetches `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::with(ToMemory, keys)
    }
}

impl<'a> Verb<'a> for ToMemory {
    type Answer = Prefetch;

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::Prefetch { keys }
    }

    fn answers(&self, _: Tick, reply: Reply) -> Result<Vec<Result<Prefetch, ErrorCode>>, Reply> {
        match reply {
            Reply::Prefetched(answers) => Ok(answers),
            other => Err(other),
        }
    }
}
