use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard};

use mooncake_types::{ErrorCode, PutItem, PutRevoke, ReplicateConfig, Tick};

use super::memory::NoMemory;
use super::ranged::{Fragments, Ranged};
use super::session::Session;
use super::{CLOSED, Store};
use crate::ops::{
    CloseOp, Closed, Closing, DiscardOp, Op, OpenPut, PartsItem, PutPartsOp, StartOp,
};

/// Most put sessions that one store has open. Those that have expired make room for others.
const MAX_PUT_SESSIONS: usize = 1 << 16;

/// What every call on a key without an open session is answered with.
const NO_SESSION: ErrorCode = ErrorCode::InvalidParams;

/// Puts that are written part by part, by key.
#[derive(Default)]
pub(super) struct PutSessions {
    puts: Mutex<Puts>,
    /// Told whenever a write has ended.
    written: Condvar,
}

#[derive(Default)]
struct Puts {
    by_key: HashMap<String, Slot>,
    is_closed: bool,
}

enum Slot {
    /// The master is being asked for ranges.
    Starting,
    Open(OpenPut),
}

impl Slot {
    /// Whether nobody uses it, and nobody may any more.
    fn has_expired(&self, now: Tick) -> bool {
        match self {
            Self::Starting => false,
            Self::Open(put) => now >= put.expires_at() && !put.is_busy(),
        }
    }
}

impl Puts {
    /// The open put of a key.
    fn open(&mut self, key: &str) -> Option<&mut OpenPut> {
        match self.by_key.get_mut(key) {
            Some(Slot::Open(put)) => Some(put),
            _ => None,
        }
    }

    /// Takes a place for a key; gives the expired put that it takes it from, if there was one.
    fn reserve(&mut self, key: &str, now: Tick) -> Result<Option<OpenPut>, ErrorCode> {
        if self.is_closed {
            return Err(CLOSED);
        }
        if self.by_key.len() >= MAX_PUT_SESSIONS && !self.by_key.contains_key(key) {
            return Err(ErrorCode::NoAvailableHandle);
        }
        match self.by_key.entry(key.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(Slot::Starting);
                Ok(None)
            }
            Entry::Occupied(mut entry) if entry.get().has_expired(now) => {
                match entry.insert(Slot::Starting) {
                    Slot::Open(put) => Ok(Some(put)),
                    Slot::Starting => Ok(None),
                }
            }
            Entry::Occupied(_) => Err(NO_SESSION),
        }
    }
}

impl PutSessions {
    fn lock(&self) -> MutexGuard<'_, Puts> {
        self.puts.lock().expect("no holder of the put sessions panicked")
    }

    /// Takes places for these items; gives by item why it has none, and the expired puts that had them before. Items
    /// of one key share a place: which of them gets the key is for the master to say.
    fn reserve<'a>(
        &self,
        items: &[PutItem<'a>],
        now: Tick,
    ) -> (Vec<Result<(), ErrorCode>>, Vec<PutRevoke<'a>>) {
        let mut puts = self.lock();
        if puts.by_key.len() + items.len() > MAX_PUT_SESSIONS {
            puts.by_key.retain(|_, slot| !slot.has_expired(now));
        }
        let mut taken = HashSet::with_capacity(items.len());
        let mut expired = Vec::new();
        let reserved = items.iter().map(|item| {
            if !taken.contains(item.key) {
                let before = puts.reserve(item.key, now)?;
                expired.extend(before.map(|put| put.revocation(item.key)));
                taken.insert(item.key);
            }
            Ok(())
        });
        (reserved.collect(), expired)
    }

    /// Puts grants into their places; gives back those that came after the store was closed.
    fn open<'a>(
        &self,
        started: impl Iterator<Item = (&'a str, Result<OpenPut, ErrorCode>)>,
    ) -> (Vec<Result<(), ErrorCode>>, Vec<PutRevoke<'a>>) {
        let mut puts = self.lock();
        let mut too_late = Vec::new();
        let opened = started.map(|(key, started)| match started {
            Ok(put) if puts.is_closed => {
                too_late.push(put.revocation(key));
                Err(CLOSED)
            }
            Ok(put) => {
                puts.by_key.insert(key.to_owned(), Slot::Open(put));
                Ok(())
            }
            Err(code) => {
                // Unless an earlier item of the call got the key.
                if matches!(puts.by_key.get(key), Some(Slot::Starting)) {
                    puts.by_key.remove(key);
                }
                Err(code)
            }
        });
        (opened.collect(), too_late)
    }

    /// Lets nobody begin a write to these keys any more, and waits until nobody is at work on one. Gives by key its put,
    /// and none for a key that has none or stood earlier in the list.
    fn seal(&self, keys: &[&str]) -> Vec<Option<OpenPut>> {
        let mut puts = self.lock();
        for key in keys {
            if let Some(put) = puts.open(key) {
                put.seal();
            }
        }
        let is_busy = |puts: &mut Puts| {
            keys.iter().any(|key| puts.open(key).is_some_and(|put| put.is_busy()))
        };
        let waited = self.written.wait_while(puts, is_busy);
        let mut puts = waited.expect("no holder of the put sessions panicked");
        let mut seen = HashSet::with_capacity(keys.len());
        keys.iter().map(|key| seen.insert(*key).then(|| puts.open(key).cloned())?).collect()
    }

    /// Forgets a put that the master has settled.
    fn forget(&self, key: &str, put: &OpenPut) {
        let mut puts = self.lock();
        if puts.open(key).is_some_and(|open| open.version() == put.version()) {
            puts.by_key.remove(key);
        }
    }

    /// Forgets everything, and takes nothing any more; gives what was open.
    pub(super) fn close(&self) -> Vec<(String, OpenPut)> {
        let mut puts = self.lock();
        puts.is_closed = true;
        let open = std::mem::take(&mut puts.by_key).into_iter();
        let open = open.filter_map(|(key, slot)| match slot {
            Slot::Starting => None,
            Slot::Open(put) => Some((key, put)),
        });
        let open = open.collect();
        drop(puts);
        self.written.notify_all();
        open
    }
}

impl Session {
    /// Gives puts up; what the master says to that changes nothing.
    fn revoke(&self, puts: Vec<PutRevoke<'_>>) {
        if puts.is_empty() {
            return;
        }
        let closings: Vec<Closing<'_>> = puts.into_iter().map(Closing::Revoke).collect();
        self.ways().drive(CloseOp::new(&closings), NoMemory);
    }

    /// Tells the master what becomes of these puts, and forgets those that it has settled. Gives by key its answer. What
    /// was written of a put that is given up is dropped first, as far as its nodes can be reached.
    fn settle(&self, closings: &[(&str, &OpenPut, Closing<'_>)]) -> Vec<Closed> {
        let given_up = closings.iter().filter(|(.., it)| matches!(it, Closing::Revoke(_)));
        let discards: Vec<_> = given_up.flat_map(|(_, put, _)| put.discards()).collect();
        if !discards.is_empty() {
            self.ways().drive(DiscardOp::new(discards), NoMemory);
        }
        let told: Vec<Closing<'_>> = closings.iter().map(|(_, _, closing)| *closing).collect();
        let answers = self.ways().drive(CloseOp::new(&told), NoMemory);
        for ((key, put, _), answer) in closings.iter().zip(&answers) {
            if matches!(answer, Closed::Settled(_)) {
                self.puts.forget(key, put);
            }
        }
        answers
    }
}

impl Store {
    /// Starts puts that are written part by part: each item is a key and the object's length.
    ///
    /// Codes as [`Store::put`], and [`ErrorCode::InvalidParams`] for a key that had a session of this store before,
    /// [`ErrorCode::NoAvailableHandle`] also if the store has 65,536 sessions open. A session that takes longer than
    /// [`crate::StoreConfig::put_session_timeout`] is over.
    pub fn put_session_start(
        &self,
        items: &[PutItem<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let (mut results, expired) = session.puts.reserve(items, session.clock.now());
        session.revoke(expired);
        let reserved: Vec<usize> =
            (0..items.len()).filter(|&position| results[position].is_ok()).collect();
        let asked: Vec<PutItem<'_>> = reserved.iter().map(|&position| items[position]).collect();
        let started =
            session.ways().drive(StartOp::new(&asked, config, self.put_session_ms), NoMemory);
        let keys = asked.iter().map(|item| item.key);
        let (opened, too_late) = session.puts.open(keys.zip(started));
        session.revoke(too_late);
        for (position, opened) in reserved.into_iter().zip(opened) {
            results[position] = opened;
        }
        session.explain(items, &results);
        results
    }

    /// Writes parts of objects whose puts were started, straight to all their replicas, without asking the master;
    /// gives by item the bytes of its fragments together. Different threads may write different parts of one object at
    /// the same time. A replica that misses a part is not published.
    ///
    /// Codes: [`ErrorCode::InvalidParams`] for a key without an open session and for a fragment past the end of the
    /// object, which fails the whole item; [`ErrorCode::ObjectReplicaBusy`] while another call writes the same bytes;
    /// [`ErrorCode::LeaseExpired`] if the session has taken too long; [`ErrorCode::TransferFail`], or what the node
    /// says, if no replica took the bytes: the object can only be given up then; [`ErrorCode::InvalidWrite`] if more
    /// than 4096 parts with gaps between them have been written.
    pub fn put_session_write(&self, items: &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let now = session.clock.now();
        let mut results = Vec::with_capacity(items.len());
        let mut writes = Vec::with_capacity(items.len());
        let mut puts = session.puts.lock();
        for (position, item) in items.iter().enumerate() {
            let open = puts.open(item.key).ok_or(NO_SESSION);
            match open.and_then(|put| put.begin(&item.parts(), now)) {
                Ok(write) => {
                    writes.push(PartsItem { position, key: item.key, write });
                    results.push(Ok(0));
                }
                Err(code) => results.push(Err(code)),
            }
        }
        drop(puts);
        let mut op = PutPartsOp::new(writes);
        session.ways().run(&mut op, &mut Fragments::new(items));
        let mut puts = session.puts.lock();
        for (item, moved) in op.finish() {
            let open = puts.open(item.key).ok_or(CLOSED);
            results[item.position] = open.and_then(|put| put.finish(&item.write, &moved));
        }
        drop(puts);
        session.puts.written.notify_all();
        results
    }

    /// Publishes objects whose bytes are all written; waits for writes that are under way. An object with bytes missing
    /// is never published: its put is given up, with [`ErrorCode::InvalidWrite`], or [`ErrorCode::TransferFail`] if no
    /// replica has all bytes.
    ///
    /// Further codes: [`ErrorCode::InvalidParams`] for a key without a session, [`ErrorCode::ObjectNotFound`] if the
    /// master has given the put up meanwhile, [`ErrorCode::ObjectAlreadyExists`] if an upsert has taken the key. After
    /// [`ErrorCode::RpcFail`] and [`ErrorCode::RpcTimeout`] the session is still there, and may be ended again.
    pub fn put_session_end(&self, keys: &[&str]) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let puts = session.puts.seal(keys);
        let mut results = vec![Err(NO_SESSION); keys.len()];
        let mut closings = Vec::with_capacity(keys.len());
        let mut positions = Vec::with_capacity(keys.len());
        for (position, (key, put)) in keys.iter().zip(&puts).enumerate() {
            let Some(put) = put else { continue };
            let ending = put.ending(key);
            results[position] = ending.map(|_| ());
            let revocation = Closing::Revoke(put.revocation(key));
            closings.push((*key, put, ending.map_or(revocation, Closing::End)));
            positions.push(position);
        }
        for (position, answer) in positions.into_iter().zip(session.settle(&closings)) {
            let (Closed::Settled(Err(code)) | Closed::Unknown(code)) = answer else { continue };
            // That a put could not be given up is no news to a caller who learns that it failed.
            results[position] = results[position].and(Err(code));
        }
        results
    }

    /// Gives puts up that were started; waits for writes that are under way.
    ///
    /// Codes: [`ErrorCode::InvalidParams`] for a key without a session. After [`ErrorCode::RpcFail`] and
    /// [`ErrorCode::RpcTimeout`] the session is still there, and may be given up again.
    pub fn put_session_revoke(&self, keys: &[&str]) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let puts = session.puts.seal(keys);
        let mut closings = Vec::with_capacity(keys.len());
        let mut positions = Vec::with_capacity(keys.len());
        for (position, (key, put)) in keys.iter().zip(&puts).enumerate() {
            let Some(put) = put else { continue };
            closings.push((*key, put, Closing::Revoke(put.revocation(key))));
            positions.push(position);
        }
        let mut results = vec![Err(NO_SESSION); keys.len()];
        for (position, answer) in positions.into_iter().zip(session.settle(&closings)) {
            results[position] = match answer {
                // The master has forgotten it already.
                Closed::Settled(Ok(()) | Err(ErrorCode::ObjectNotFound)) => Ok(()),
                Closed::Settled(Err(code)) | Closed::Unknown(code) => Err(code),
            };
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_none_is_taken_after_closing() {
        let sessions = PutSessions::default();
        let names: Vec<String> = (0..MAX_PUT_SESSIONS).map(|number| number.to_string()).collect();
        let items: Vec<PutItem<'_>> = names.iter().map(|name| PutItem::new(name, 1)).collect();
        let (reserved, _) = sessions.reserve(&items, Tick(0));
        assert!(reserved.iter().all(Result::is_ok));
        let reserve = |key| sessions.reserve(&[PutItem::new(key, 1)], Tick(0)).0.remove(0);
        assert_eq!(reserve("one more"), Err(ErrorCode::NoAvailableHandle));
        assert_eq!(reserve("7"), Err(NO_SESSION));
        let refused = Err(ErrorCode::ObjectAlreadyExists);
        assert_eq!(
            sessions.open([("7", refused)].into_iter()).0,
            [Err(ErrorCode::ObjectAlreadyExists)]
        );
        assert_eq!(reserve("one more"), Ok(()));
        assert_eq!(sessions.close().len(), 0, "none was granted");
        assert_eq!(reserve("7"), Err(CLOSED));
    }
}
