//! The clients that are alive: each sent a request within its time to live.

use hashbrown::HashMap;
use mooncake_types::{ClientId, Tick};

/// A client that is alive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Stands for the client in the object records. No later client gets the same number.
    pub(super) number: u32,
    /// The newest of its processes that has mounted a segment: see [`mooncake_types::MountSegment::run`].
    pub(super) run: u64,
    /// When the master first heard of that process.
    pub(super) run_since: Tick,
    pub(super) last_heard: Tick,
    /// Whether it was silent for its whole time to live and got another one.
    spared: bool,
    /// Whether the connection of its last ping is open, as far as the master knows.
    pub(super) in_sight: bool,
    /// When `in_sight` changed last.
    pub(super) sight_changed: Tick,
    /// If others could not reach it: when it goes out of sight unless it pings.
    pub(super) doubted_until: Option<Tick>,
}

/// All living clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    known: HashMap<ClientId, Client, foldhash::fast::FixedState>,
    /// How many clients are in sight.
    in_sight: usize,
    next_number: u32,
    /// When any client was last heard of.
    last_heard: Tick,
}

impl Clients {
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// How many clients are in sight.
    pub(crate) fn in_sight(&self) -> usize {
        self.in_sight
    }

    pub(crate) fn get(&self, id: ClientId) -> Option<Client> {
        self.known.get(&id).copied()
    }

    /// Notes a sign of life. True if the client was not known.
    pub(crate) fn hear(&mut self, id: ClientId, now: Tick) -> bool {
        self.last_heard = now;
        if let Some(client) = self.known.get_mut(&id) {
            (client.last_heard, client.spared) = (now, false);
            return false;
        }
        self.next_number = self.next_number.wrapping_add(1);
        let number = self.next_number;
        let client = Client {
            number,
            run: 0,
            run_since: now,
            last_heard: now,
            spared: false,
            in_sight: true,
            sight_changed: now,
            doubted_until: None,
        };
        self.known.insert(id, client);
        self.in_sight += 1;
        true
    }

    /// Notes which of its processes is the client's newest.
    pub(super) fn set_run(&mut self, id: ClientId, run: u64, now: Tick) {
        if let Some(client) = self.known.get_mut(&id).filter(|client| client.run != run) {
            (client.run, client.run_since) = (run, now);
        }
    }

    /// Notes whether a client is in sight. True if that has changed.
    pub(super) fn set_in_sight(&mut self, id: ClientId, in_sight: bool, now: Tick) -> bool {
        let other = |client: &&mut Client| client.in_sight != in_sight;
        let Some(client) = self.known.get_mut(&id).filter(other) else { return false };
        (client.in_sight, client.sight_changed) = (in_sight, now);
        match in_sight {
            true => self.in_sight += 1,
            false => self.in_sight -= 1,
        }
        true
    }

    /// Begins a doubt about a client that is in sight and not doubted yet. True if it was one.
    pub(super) fn doubt(&mut self, id: ClientId, until: Tick) -> bool {
        let unsuspected = |client: &&mut Client| client.in_sight && client.doubted_until.is_none();
        let client = self.known.get_mut(&id).filter(unsuspected);
        client.map(|client| client.doubted_until = Some(until)).is_some()
    }

    /// Ends the doubt about a client. Gives the time until which the doubt would have lasted, if there was one.
    pub(crate) fn clear_doubt(&mut self, id: ClientId) -> Option<Tick> {
        self.known.get_mut(&id)?.doubted_until.take()
    }

    /// Whether there are several clients, and none was heard of for this long.
    pub(super) fn all_silent_for(&self, now: Tick, ms: u64) -> bool {
        self.known.len() > 1 && self.is_silent_for(now, ms)
    }

    /// Whether no client was heard of for this long.
    pub(crate) fn is_silent_for(&self, now: Tick, ms: u64) -> bool {
        now.since_ms(self.last_heard) >= ms
    }

    /// Gives a silent client another time to live. False if it has got one since it was last heard of.
    pub(super) fn spare(&mut self, id: ClientId) -> bool {
        self.known.get_mut(&id).is_some_and(|client| !std::mem::replace(&mut client.spared, true))
    }

    pub(crate) fn forget(&mut self, id: ClientId) {
        if self.known.remove(&id).is_some_and(|client| client.in_sight) {
            self.in_sight -= 1;
        }
    }
}
