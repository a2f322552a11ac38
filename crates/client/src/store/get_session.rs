use mooncake_ops::{GetItem, GetOp, Op, Part, RoutesOp};
use mooncake_types::ErrorCode;

use super::Store;
use super::closed::CLOSED;
use super::memory::NoMemory;
use super::ranged::{Fragments, Ranged};

impl Store {
    /// Looks up objects for later reads, leases them, and returns their lengths in bytes. Starting again for a key
    /// renews its lease, and finds a newer version if there is one.
    ///
    /// Codes as [`Store::locate`]; [`ErrorCode::NoAvailableHandle`] if the store holds 131,072 sessions, and
    /// [`ErrorCode::LeaseExpired`] if leases are too short to be used. A key with an error has no session.
    pub fn get_session_start(&self, keys: &[&str]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("get_session_start", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let found = session.counted(session.driver().drive(RoutesOp::new(keys), NoMemory));
        session.gets.hold(keys, found, session.clock.now())
    }

    /// Reads parts of objects by the routes that [`Store::get_session_start`] looked up, without asking the master.
    /// Returns the total length of each item's fragments in bytes. All reads in one session are of the version that
    /// its start found. If a replica fails, the next is read.
    ///
    /// Codes:
    ///
    /// - [`ErrorCode::InvalidParams`] for a key without a session, or for a fragment past the end of the object,
    ///   which fails the whole item;
    /// - [`ErrorCode::LeaseExpired`] if the lease is over, which ends the session;
    /// - [`ErrorCode::ObjectNotFound`] if the object was removed by force or replaced since the start of the session;
    /// - [`ErrorCode::TransferFail`] if no replica could be read.
    pub fn get_session_read(&self, items: &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let _call = session.begin("get_session_read", items.len());
        let parts: Vec<Vec<Part>> = items.iter().map(Ranged::parts).collect();
        let stored = self.stored(items.iter().map(|item| item.key));
        let key_of = |position: usize| stored.at(position, items[position].key);
        let wanted = parts.iter().enumerate();
        let wanted: Vec<GetItem<'_>> =
            wanted.map(|(position, parts)| GetItem::parts(key_of(position), parts)).collect();
        let own = session.own();
        let mut op = GetOp::held(
            &wanted,
            session.gets.held(wanted.iter().map(|item| item.key)),
            &own,
            session.chance(),
        );
        session.driver().run(&mut op, &mut Fragments::new(items));
        let results = op.finish();
        let ended = results.iter().zip(&wanted);
        let ended = ended.filter(|(result, _)| **result == Err(ErrorCode::LeaseExpired));
        session.gets.forget_expired(ended.map(|(_, item)| item.key), session.clock.now());
        let lens = results.into_iter().zip(items);
        lens.map(|(result, item)| result.map(|_| item.total_len())).collect()
    }

    /// Ends get sessions. A key without one is no error.
    pub fn get_session_end(&self, keys: &[&str]) {
        let Some(session) = self.session() else { return };
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        session.gets.forget(keys);
    }
}
