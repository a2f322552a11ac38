use std::collections::BTreeSet;
use std::sync::Arc;

use mooncake_types::{ErrorCode, Reply, SegmentAddress, Tick};

use super::route::Route;

/// The outcome of renewing the lease of a route.
#[derive(Clone, Debug)]
pub enum Renewed {
    /// The route with a new lease, or another route to the object.
    Route(Arc<Route>),
    /// A newer version is about to replace this one, or nodes may still hold an older one: the next get looks the
    /// object up.
    Unsettled,
    /// The object is gone, or the answer about it is malformed.
    Gone(ErrorCode),
}

/// The outcomes in the reply to a [`mooncake_types::Request::RenewRoutes`] that was sent at `asked_at`, by position;
/// `None` if the reply is of another kind.
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
