use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard};

use mooncake_ops::{Closing, PutSession};
use mooncake_types::{ErrorCode, PutItem, PutRevoke, Tick};

use super::closed::CLOSED;

/// Most put sessions that one store has open. Expired ones make room for others.
const MAX_PUT_SESSIONS: usize = 1 << 16;

/// The error of calls on a key without an open session.
pub(super) const NO_SESSION: ErrorCode = ErrorCode::InvalidParams;

/// Puts that are written part by part, by key.
#[derive(Default)]
pub(super) struct PutSessions {
    puts: Mutex<Puts>,
    /// Signalled whenever a write has ended.
    written: Condvar,
}

#[derive(Default)]
pub(super) struct Puts {
    by_key: HashMap<String, PutSlot>,
    is_closed: bool,
}

enum PutSlot {
    /// The master is being asked for ranges.
    Starting,
    Open(PutSession),
}

impl PutSlot {
    /// Whether its time is over, and no call uses it.
    fn has_expired(&self, now: Tick) -> bool {
        match self {
            Self::Starting => false,
            Self::Open(put) => now >= put.expires_at() && !put.is_busy(),
        }
    }
}

impl Puts {
    /// The open put of a key.
    pub(super) fn open(&mut self, key: &str) -> Option<&mut PutSession> {
        match self.by_key.get_mut(key) {
            Some(PutSlot::Open(put)) => Some(put),
            _ => None,
        }
    }

    /// Reserves the slot of a key. Returns the expired put that was there before, if any.
    fn reserve(&mut self, key: &str, now: Tick) -> Result<Option<PutSession>, ErrorCode> {
        if self.is_closed {
            return Err(CLOSED);
        }
        if self.by_key.len() >= MAX_PUT_SESSIONS && !self.by_key.contains_key(key) {
            return Err(ErrorCode::NoAvailableHandle);
        }
        match self.by_key.entry(key.to_owned()) {
            Entry::Vacant(entry) => {
                entry.insert(PutSlot::Starting);
                Ok(None)
            }
            Entry::Occupied(mut entry) if entry.get().has_expired(now) => {
                match entry.insert(PutSlot::Starting) {
                    PutSlot::Open(put) => Ok(Some(put)),
                    PutSlot::Starting => Ok(None),
                }
            }
            Entry::Occupied(_) => Err(NO_SESSION),
        }
    }
}

impl PutSessions {
    pub(super) fn lock(&self) -> MutexGuard<'_, Puts> {
        self.puts.lock().expect("no holder of the put sessions panicked")
    }

    /// Reserves slots for these items. Returns a result for each item, and the expired puts that were replaced. Items
    /// with the same key share a slot: the master decides which of them gets the key.
    pub(super) fn reserve<'a>(
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

    /// Puts grants into their slots. Returns a result for each, and the grants that came after the store was closed.
    pub(super) fn open<'a>(
        &self,
        started: impl Iterator<Item = (&'a str, Result<PutSession, ErrorCode>)>,
    ) -> (Vec<Result<(), ErrorCode>>, Vec<PutRevoke<'a>>) {
        let mut puts = self.lock();
        let mut too_late = Vec::new();
        let opened = started.map(|(key, started)| match started {
            Ok(put) if puts.is_closed => {
                too_late.push(put.revocation(key));
                Err(CLOSED)
            }
            Ok(put) => {
                puts.by_key.insert(key.to_owned(), PutSlot::Open(put));
                Ok(())
            }
            Err(code) => {
                // The slot stays if an earlier item of the call got the key.
                if matches!(puts.by_key.get(key), Some(PutSlot::Starting)) {
                    puts.by_key.remove(key);
                }
                Err(code)
            }
        });
        (opened.collect(), too_late)
    }

    /// Lets no more writes to these keys begin, and waits until all have ended. Returns the puts that exist, each
    /// with the first position of its key.
    pub(super) fn seal(&self, keys: &[&str]) -> Vec<(usize, PutSession)> {
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
        let mut met = HashSet::with_capacity(keys.len());
        let first = keys.iter().enumerate().filter(|(_, key)| met.insert(**key));
        first.filter_map(|(position, key)| Some((position, puts.open(key)?.clone()))).collect()
    }

    /// Notes these closings in their puts, before the master and the nodes are asked for them.
    pub(super) fn note(&self, closings: &[Closing<'_>]) {
        let mut puts = self.lock();
        for closing in closings {
            let (key, version) = match closing {
                Closing::End(end) => (end.key, end.version),
                Closing::GiveUp(revocation, _) => (revocation.key, revocation.version),
            };
            if let Some(put) = puts.open(key).filter(|put| put.version() == version) {
                put.note(closing);
            }
        }
    }

    /// Wakes the threads that wait for a write to end.
    pub(super) fn on_written(&self) {
        self.written.notify_all();
    }

    /// Forgets a put that the master has settled.
    pub(super) fn forget(&self, key: &str, put: &PutSession) {
        let mut puts = self.lock();
        if puts.open(key).is_some_and(|open| open.version() == put.version()) {
            puts.by_key.remove(key);
        }
    }

    /// Forgets all puts, and takes no more. Returns the open ones.
    pub(super) fn close(&self) -> Vec<(String, PutSession)> {
        let mut puts = self.lock();
        puts.is_closed = true;
        let open = std::mem::take(&mut puts.by_key).into_iter();
        let open = open.filter_map(|(key, slot)| match slot {
            PutSlot::Starting => None,
            PutSlot::Open(put) => Some((key, put)),
        });
        let open = open.collect();
        drop(puts);
        self.written.notify_all();
        open
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
