use std::sync::Arc;

use mooncake_types::{ErrorCode, Reply, Request, SegmentAddress, Tick};

use super::route::Route;
use crate::keyed::{Keyed, Verb};

/// Routes to objects, for reads that follow. Grants a lease on each that is found.
pub type HoldOp<'a> = Keyed<'a, Hold>;

/// See [`HoldOp`].
#[derive(Clone, Copy, Debug)]
pub struct Hold;

impl<'a> HoldOp<'a> {
    /// A question about `keys`.
    #[must_use]
    pub fn new(keys: &'a [&'a str]) -> Self {
        Self::with(Hold, keys)
    }
}

impl<'a> Verb<'a> for Hold {
    type Answer = Route;
    const LEADS_TO_BYTES: bool = true;

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::GetReplicaList { keys }
    }

    fn answers(
        &self,
        asked_at: Tick,
        reply: Reply,
    ) -> Result<Vec<Result<Route, ErrorCode>>, Reply> {
        match reply {
            Reply::Located { results, segments, lease_ms, .. } => {
                let segments: Arc<[SegmentAddress]> = segments.into();
                let lease_end = asked_at.after_ms(lease_ms);
                let routes =
                    results.into_iter().map(|result| Route::new(result?, &segments, lease_end));
                Ok(routes.collect())
            }
            other => Err(other),
        }
    }
}
