use std::collections::BTreeSet;
use std::sync::Arc;

use mooncake_types::{ErrorCode, Reply, SegmentAddress, Tick};

use super::route::Route;

/// What became of a route whose lease was to be renewed.
#[derive(Clone, Debug)]
pub enum Renewed {
    /// It may be used for longer, or another one may.
    Route(Arc<Route>),
    /// A newer version is about to take the place of this one, or an older one may still be found: the next get looks it up.
    Unsettled,
    /// The object is gone, or what was said of it makes no sense.
    Gone(ErrorCode),
}

/// What a master says to [`mooncake_types::Request::RenewRoutes`] that was asked at `asked_at`, by position; nothing if it
/// says something else.
#[must_use]
pub fn renewed(asked_at: Tick, reply: Reply) -> Option<Vec<Renewed>> {
    let Reply::Located { results, successors, predecessors, segments, lease_ms } = reply else {
        return None;
    };
    let lease_end = asked_at.after_ms(lease_ms);
    let segments: Arc<[SegmentAddress]> = segments.into();
    let newer = successors.iter().map(|(key, _)| *key);
    let unsettled: BTreeSet<u32> = newer.chain(predecessors.iter().map(|(key, _)| *key)).collect();
    let renew = |(result, index): (Result<_, ErrorCode>, u32)| {
        let is_unsettled = unsettled.contains(&index);
        match result.and_then(|located| Route::new(located, &segments, lease_end)) {
            Ok(_) if is_unsettled => Renewed::Unsettled,
            Ok(route) => Renewed::Route(Arc::new(route)),
            Err(code) => Renewed::Gone(code),
        }
    };
    Some(results.into_iter().zip(0..).map(renew).collect())
}
