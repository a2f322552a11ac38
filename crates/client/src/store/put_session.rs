use mooncake_ops::{CloseOp, CloseOutcome, Closing, PutPartsOp, PutSession, StartOp};
use mooncake_types::{ErrorCode, PutItem, PutRevoke, ReplicateConfig};

use super::Store;
use super::closed::CLOSED;
use super::memory::NoMemory;
use super::put_sessions::NO_SESSION;
use super::ranged::{Fragments, Ranged};
use super::session::Session;

impl Session {
    /// Gives puts up, and ignores the master's answer.
    fn revoke(&self, puts: Vec<PutRevoke<'_>>) {
        if puts.is_empty() {
            return;
        }
        let forget = |put| Closing::GiveUp(put, Vec::new());
        let closings: Vec<Closing<'_>> = puts.into_iter().map(forget).collect();
        self.driver().drive(CloseOp::new(&closings), NoMemory);
    }

    /// Closes put sessions, and forgets those that the master has settled. Returns the outcome of each put.
    fn close_puts(
        &self,
        keys: &[&str],
        puts: &[(usize, PutSession)],
        closings: &[Closing<'_>],
    ) -> Vec<CloseOutcome> {
        let answers = self.driver().drive(CloseOp::new(closings), NoMemory);
        for ((position, put), answer) in puts.iter().zip(&answers) {
            if matches!(answer, CloseOutcome::Settled(_)) {
                self.puts.forget(keys[*position], put);
            }
        }
        answers
    }
}

impl Store {
    /// Starts puts that are written part by part: each item is a key and the object's length.
    ///
    /// Codes as [`Store::put`], and [`ErrorCode::InvalidParams`] for a key that has a session of this store already,
    /// [`ErrorCode::NoAvailableHandle`] also if the store has 65,536 sessions open. A session expires after
    /// [`crate::StoreConfig::put_session_timeout`].
    pub fn put_session_start(
        &self,
        items: &[PutItem<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let _call = session.begin("put_session_start", items.len());
        let stored = self.stored(items.iter().map(|item| item.key));
        let named = items.iter().enumerate();
        let named =
            named.map(|(position, item)| PutItem { key: stored.at(position, item.key), ..*item });
        let items = &*named.collect::<Vec<_>>();
        let (mut results, expired) = session.puts.reserve(items, session.clock.now());
        session.revoke(expired);
        let reserved: Vec<usize> =
            (0..items.len()).filter(|&position| results[position].is_ok()).collect();
        let asked: Vec<PutItem<'_>> = reserved.iter().map(|&position| items[position]).collect();
        let start = StartOp::new(&asked, config, self.shared.put_session_ms);
        let started = session.driver().drive(start.patient(session.put_wait_ms), NoMemory);
        let keys = asked.iter().map(|item| item.key);
        let (opened, too_late) = session.puts.open(keys.zip(started));
        session.revoke(too_late);
        for (position, opened) in reserved.into_iter().zip(opened) {
            results[position] = opened;
        }
        session.explain_puts(items, &results);
        results
    }

    /// Writes parts of objects whose puts were started, straight to all their replicas, without asking the master.
    /// Returns the total length of each item's fragments in bytes. Different threads may write different parts of one
    /// object at the same time. A replica that misses a part is not published.
    ///
    /// Codes:
    ///
    /// - [`ErrorCode::InvalidParams`] for a key without an open session, or for a fragment past the end of the
    ///   object, which fails the whole item;
    /// - [`ErrorCode::ObjectReplicaBusy`] while another call writes the same bytes;
    /// - [`ErrorCode::LeaseExpired`] if the session has expired;
    /// - [`ErrorCode::TransferFail`], or the code of the node, if no replica took the bytes: then the put can only be
    ///   given up;
    /// - [`ErrorCode::InvalidWrite`] if more than 4096 parts with gaps between them have been written.
    pub fn put_session_write(&self, items: &[Ranged<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); items.len()] };
        let _call = session.begin("put_session_write", items.len());
        let now = session.clock.now();
        let stored = self.stored(items.iter().map(|item| item.key));
        let mut results = Vec::with_capacity(items.len());
        let mut writes = Vec::with_capacity(items.len());
        let mut puts = session.puts.lock();
        for (position, item) in items.iter().enumerate() {
            let key = stored.at(position, item.key);
            let open = puts.open(key).ok_or(NO_SESSION);
            let begun = open.and_then(|put| put.begin(position, key, &item.parts(), now));
            results.push(begun.as_ref().map_or_else(|&code| Err(code), |_| Ok(0)));
            writes.extend(begun);
        }
        drop(puts);
        let written = session.driver().drive(PutPartsOp::new(writes), Fragments::new(items));
        let mut puts = session.puts.lock();
        for write in written {
            let open = puts.open(write.key()).ok_or(CLOSED);
            results[write.position()] = open.and_then(|put| put.finish(&write));
        }
        drop(puts);
        session.puts.on_written();
        results
    }

    /// Publishes objects whose bytes are all written, after it has waited for writes under way. An object with bytes
    /// missing is never published: its put is given up, with [`ErrorCode::InvalidWrite`], or with
    /// [`ErrorCode::TransferFail`] if no replica has all bytes.
    ///
    /// Further codes: [`ErrorCode::InvalidParams`] for a key without a session, [`ErrorCode::ObjectNotFound`] if the
    /// master has given the put up meanwhile, [`ErrorCode::ObjectAlreadyExists`] if an upsert has taken the key. After
    /// [`ErrorCode::RpcFail`] and [`ErrorCode::RpcTimeout`] the session is still there, and may be ended again.
    pub fn put_session_end(&self, keys: &[&str]) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("put_session_end", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let puts = session.puts.seal(keys);
        let mut results = vec![Err(NO_SESSION); keys.len()];
        let mut closings = Vec::with_capacity(puts.len());
        for (position, put) in &puts {
            let ending = put.ending(keys[*position]);
            results[*position] = ending.map(|_| ());
            closings.push(ending.map_or_else(|_| put.giving_up(keys[*position]), Closing::End));
        }
        session.puts.note(&closings);
        for ((position, _), answer) in puts.iter().zip(session.close_puts(keys, &puts, &closings)) {
            let (CloseOutcome::Settled(Err(code)) | CloseOutcome::Unknown(code)) = answer else {
                continue;
            };
            // The caller learns that the put failed; that it could not be given up adds nothing.
            results[*position] = results[*position].and(Err(code));
        }
        results
    }

    /// Gives up puts that were started, after it has waited for writes under way.
    ///
    /// Codes: [`ErrorCode::InvalidParams`] for a key without a session. After [`ErrorCode::RpcFail`] and
    /// [`ErrorCode::RpcTimeout`] the session is still there, and may be given up again.
    pub fn put_session_revoke(&self, keys: &[&str]) -> Vec<Result<(), ErrorCode>> {
        let Some(session) = self.session() else { return vec![Err(CLOSED); keys.len()] };
        let _call = session.begin("put_session_revoke", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        let puts = session.puts.seal(keys);
        let closings: Vec<_> = puts.iter().map(|(at, put)| put.giving_up(keys[*at])).collect();
        session.puts.note(&closings);
        let mut results = vec![Err(NO_SESSION); keys.len()];
        for ((position, _), answer) in puts.iter().zip(session.close_puts(keys, &puts, &closings)) {
            results[*position] = match answer {
                // The master has forgotten it already.
                CloseOutcome::Settled(Ok(()) | Err(ErrorCode::ObjectNotFound)) => Ok(()),
                CloseOutcome::Settled(Err(code)) | CloseOutcome::Unknown(code) => Err(code),
            };
        }
        results
    }
}
