use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use mooncake_ops::{GetItem, GetOp, HoldOp, Op, Part, Route};
use mooncake_types::{ErrorCode, Tick};

use super::memory::NoMemory;
use super::ranged::{Fragments, Ranged};
use super::{CLOSED, Store};

/// Most routes that one store holds for get sessions. Those whose leases are over make room for others.
const MAX_GET_SESSIONS: usize = 1 << 17;

/// Routes that callers have asked for ahead of their reads, by key.
#[derive(Default)]
pub(super) struct GetSessions {
    routes: Mutex<HashMap<String, Route>>,
}

impl GetSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        self.routes.lock().expect("no holder of the routes panicked")
    }

    /// Keeps what was found; what was held before under these keys is forgotten.
    fn hold(
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

    fn held(&self, items: &[Ranged<'_>]) -> Vec<Option<Route>> {
        let routes = self.lock();
        items.iter().map(|item| routes.get(item.key).cloned()).collect()
    }

    /// Forgets routes whose leases are over.
    fn forget_expired<'k>(&self, keys: impl Iterator<Item = &'k str>, now: Tick) {
        let mut routes = self.lock();
        for key in keys {
            if routes.get(key).is_some_and(|route| now >= route.lease_end()) {
                routes.remove(key);
            }
        }
    }
}

impl Store {
    /// Looks objects up for reads that follow, and leases them; gives their lengths in bytes. Starting again for a key
    /// renews its lease, and shows a newer version if there is one.
    ///
    /// Codes as [`Store::locate`]; [`ErrorCode::NoAvailableHandle`] if the store holds 131,072 sessions, and
    /// [`ErrorCode::LeaseExpired`] if leases are too short to be used. A key that is answered with an error has no
    /// session.
    pub fn get_session_start(&self, keys: &[&str]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let found = session.counted(session.ways().drive(HoldOp::new(keys), NoMemory));
        session.gets.hold(keys, found, session.clock.now())
    }

    /// Reads parts of objects by the routes that [`Store::get_session_start`] looked up, without asking the master;
    /// gives by item the bytes of its fragments together. All that is read in one session is of one version, the one
    /// that its start found. A replica that fails is followed by the next.
    ///
    /// Codes: [`ErrorCode::InvalidParams`] for a key without a session and for a fragment past the end of the object,
    /// which fails the whole item; [`ErrorCode::LeaseExpired`] if the lease is over, which ends the session;
    /// [`ErrorCode::ObjectNotFound`] if the object was removed by
    /// force or replaced since the session was started; [`ErrorCode::TransferFail`] if no
    /// replica could be read.
    pub fn get_session_read(&self, items: &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let parts: Vec<Vec<Part>> = items.iter().map(Ranged::parts).collect();
        let wanted = items.iter().zip(&parts);
        let wanted: Vec<GetItem<'_>> =
            wanted.map(|(item, parts)| GetItem::parts(item.key, parts)).collect();
        let own = session.own();
        let mut op = GetOp::held(&wanted, session.gets.held(items), &own, session.chance());
        session.ways().run(&mut op, &mut Fragments::new(items));
        let results = op.finish();
        let ended = results.iter().zip(items);
        let ended = ended.filter(|(result, _)| **result == Err(ErrorCode::LeaseExpired));
        session.gets.forget_expired(ended.map(|(_, item)| item.key), session.clock.now());
        let lens = results.into_iter().zip(items);
        lens.map(|(result, item)| result.map(|_| item.total_len())).collect()
    }

    /// Ends get sessions. A key without one is no error.
    pub fn get_session_end(&self, keys: &[&str]) {
        let Some(session) = self.session() else { return };
        let mut routes = session.gets.lock();
        for key in keys {
            routes.remove(*key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::{Located, Medium, Placement, Reply, SegmentAddress, SegmentId, Version};

    /// A route that may be used until 5100 ms.
    fn route() -> Route {
        let keys = ["a"];
        let mut op = HoldOp::new(&keys);
        op.next(Tick(100));
        let placements = vec![Placement { replica: 0, segment: 0, offset: 0, len: 10 }];
        let located = Located { version: Version::default(), len: 10, placements };
        let segment = SegmentAddress {
            id: SegmentId(1),
            name: "n".into(),
            endpoint: "e".into(),
            medium: Medium::Memory,
        };
        let (results, segments) = (vec![Ok(located)], vec![segment]);
        op.on_reply(
            Tick(100),
            Ok(Reply::Located {
                results,
                successors: vec![],
                predecessors: vec![],
                segments,
                lease_ms: 5000,
            }),
        );
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
