use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use mooncake_ops::Route;
use mooncake_types::{ErrorCode, Tick};

/// Most routes that one store holds for get sessions. Routes whose leases are over make room for others.
const MAX_GET_SESSIONS: usize = 1 << 17;

/// Routes that callers looked up ahead of their reads, by key.
#[derive(Default)]
pub(super) struct GetSessions {
    routes: Mutex<HashMap<String, Route>>,
}

impl GetSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        self.routes.lock().expect("no holder of the routes panicked")
    }

    /// Keeps the routes that were found, and forgets earlier routes of these keys.
    pub(super) fn hold(
        &self,
        keys: &[&str],
        found: Vec<Result<Route, ErrorCode>>,
        now: Tick,
    ) -> Vec<Result<u64, ErrorCode>> {
        let mut routes = self.lock();
        if routes.len() + keys.len() > MAX_GET_SESSIONS {
            routes.retain(|_, route| now < route.lease_end());
        }
        let hold = |(key, found): (&&str, Result<Route, ErrorCode>)| {
            routes.remove(*key);
            let route = found?;
            let object_len = route.object_len();
            if now >= route.lease_end() {
                return Err(ErrorCode::LeaseExpired);
            }
            if routes.len() >= MAX_GET_SESSIONS {
                return Err(ErrorCode::NoAvailableHandle);
            }
            routes.insert((*key).to_owned(), route);
            Ok(object_len)
        };
        keys.iter().zip(found).map(hold).collect()
    }

    pub(super) fn held<'k>(&self, keys: impl Iterator<Item = &'k str>) -> Vec<Option<Route>> {
        let routes = self.lock();
        keys.map(|key| routes.get(key).cloned()).collect()
    }

    /// Forgets the routes of these keys.
    pub(super) fn forget(&self, keys: &[&str]) {
        let mut routes = self.lock();
        for key in keys {
            routes.remove(*key);
        }
    }

    /// Forgets those routes of these keys whose leases are over.
    pub(super) fn forget_expired<'k>(&self, keys: impl Iterator<Item = &'k str>, now: Tick) {
        let mut routes = self.lock();
        for key in keys {
            if routes.get(key).is_some_and(|route| now >= route.lease_end()) {
                routes.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_ops::{Op, RoutesOp};
    use mooncake_types::{Located, Medium, Placement, Reply, SegmentAddress, SegmentId, Version};

    /// A route that may be used until 5100 ms.
    fn route() -> Route {
        let keys = ["a"];
        let mut op = RoutesOp::new(&keys);
        op.next(Tick(100));
        let placements =
            vec![Placement { replica: 0, segment: 0, offset: 0, len: 10, ..Placement::default() }];
        let located = Located { version: Version::default(), len: 10, placements };
        let segment = SegmentAddress {
            id: SegmentId(1),
            name: "n".into(),
            endpoint: "e".into(),
            medium: Medium::Memory,
        };
        let (results, segments) = (vec![Ok(located)], vec![segment]);
        op.on_reply(Ok(Reply::Located {
            results,
            successors: vec![],
            predecessors: vec![],
            segments,
            lease_ms: 5000,
        }));
        op.finish().remove(0).expect("the reply makes sense")
    }

    #[test]
    fn routes_are_bounded_and_those_that_are_over_make_room() {
        let (sessions, route) = (GetSessions::default(), route());
        let names: Vec<String> = (0..MAX_GET_SESSIONS).map(|number| number.to_string()).collect();
        let keys: Vec<&str> = names.iter().map(String::as_str).collect();
        let held = sessions.hold(&keys, vec![Ok(route.clone()); keys.len()], Tick(200));
        assert!(held.iter().all(|it| *it == Ok(10)));
        let hold = |key, at| sessions.hold(&[key], vec![Ok(route.clone())], Tick(at));
        assert_eq!(hold("one more", 200), [Err(ErrorCode::NoAvailableHandle)]);
        assert_eq!(hold("7", 200), [Ok(10)], "a key that is held is renewed");
        assert_eq!(hold("late", 5100), [Err(ErrorCode::LeaseExpired)]);
        assert_eq!(sessions.lock().len(), 0, "all leases are over");
    }
}
