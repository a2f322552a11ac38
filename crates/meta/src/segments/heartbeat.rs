//! Heartbeats: which clients are alive, the answer to a ping, and the end of clients that are silent.

use mooncake_types::{ClientId, ErrorCode, Medium, Pong, Reply, SegmentId, Tick};

use super::closed::Closed;
use super::segment::Segment;
use crate::Meta;
use crate::timer::Timer;

impl Meta {
    /// Notes a sign of life of a client.
    pub(crate) fn hear(&mut self, from: ClientId) {
        if self.clients.hear(from, self.now) {
            let due = self.now.after_ms(self.config.client_ttl_ms);
            self.timers.insert((due, Timer::Client(from)));
        }
    }

    /// The number that stands for a client in the object records.
    pub(crate) fn number_of(&self, client: ClientId) -> u32 {
        // Numbers start at 1. Zero stands for unknown clients, and for operators, which end no puts.
        self.clients.get(client).map_or(0, |client| client.number)
    }

    /// Whether a client is in sight. An unknown client has just sent its first request, and is.
    pub(super) fn is_in_sight(&self, client: ClientId) -> bool {
        self.clients.get(client).is_none_or(|client| client.in_sight)
    }

    pub(crate) fn ping(
        &mut self,
        from: ClientId,
        hosted: &[SegmentId],
        unreachable: &[SegmentId],
    ) -> Reply {
        self.set_sight(from, true);
        self.doubt(unreachable);
        let lent = |id: &SegmentId| {
            let slot = self.segments.find(*id);
            let segment = slot.map(|slot| &self.segments[slot]);
            segment.is_some_and(|segment| segment.client == from && !segment.is(Closed::Struck))
        };
        let need_remount = !hosted.iter().all(lent);
        hosted.iter().for_each(|&id| self.recovery.note_heard(id, self.now));
        let is_unreached = hosted.iter().filter_map(|&id| self.segments.find(id));
        let is_unreached =
            is_unreached.into_iter().any(|slot| self.segments[slot].is(Closed::Unreached));
        Reply::Pong(Pong {
            need_remount,
            epoch: self.term.epoch(),
            has_tasks: self.tasks.has_pending(from),
            has_drops: self.has_drops(hosted),
            is_unreached,
            client_ttl_ms: self.config.client_ttl_ms,
            routes_ms: self.routes_ms(),
        })
    }

    /// A client will not ping any more. It is forgotten at once, unless it lends segments: its next process may lend
    /// them again.
    pub(crate) fn leave(&mut self, from: ClientId) -> Result<(), ErrorCode> {
        if self.segments.of_client(from).iter().all(|&slot| self.is_leaving(slot)) {
            self.strike_client(from);
        }
        Ok(())
    }

    pub(crate) fn client_due(&mut self, client: ClientId, timer_due: Tick) {
        let Some(record) = self.clients.get(client) else { return };
        let ttl_ms = self.config.client_ttl_ms;
        let was_cut_off =
            self.was_held_up(timer_due) || self.clients.all_silent_for(self.now, ttl_ms / 2);
        let due = record.last_heard.after_ms(ttl_ms);
        let disk_due = record.last_heard.after_ms(self.config.disk_ttl_ms);
        if due > self.now {
            if record.run_since.after_ms(self.config.disk_ttl_ms) <= self.now {
                self.give_up_left_disks(client, record.run);
            }
            self.timers.insert((due, Timer::Client(client)));
        } else if was_cut_off && self.clients.spare(client) {
            // The timer is late, or all clients fell silent at once: the master was paused, or cut off. Each client
            // gets one more time to live.
            self.timers.insert((self.now.after_ms(ttl_ms), Timer::Client(client)));
        } else if let Some(end) = self.lose_sight_of_silent(client) {
            self.timers.insert((end, Timer::Client(client)));
        } else if disk_due > self.now && self.lends_disk(client) {
            self.strike_memory_of(client);
            // The client's next process may come and die before that.
            let due = disk_due.min(self.now.after_ms(ttl_ms));
            self.timers.insert((due, Timer::Client(client)));
        } else {
            self.counters.clients_given_up += 1;
            self.strike_client(client);
        }
    }

    /// Strikes disks that an earlier process lent, if the present one has not mounted them within the disks' time to
    /// live.
    fn give_up_left_disks(&mut self, client: ClientId, run: u64) {
        self.strike_where(client, |segment| {
            let is_left = segment.medium != Medium::Memory && segment.run < run;
            is_left && !segment.is(Closed::Struck)
        });
    }

    fn lends_disk(&self, client: ClientId) -> bool {
        let segments = self.segments.of_client(client);
        segments.iter().any(|&slot| self.segments[slot].medium != Medium::Memory)
    }

    /// As [`Meta::strike_client`], but strikes segments in memory only. Objects on disks outlive the process, and are
    /// out of sight until the next process comes.
    fn strike_memory_of(&mut self, client: ClientId) {
        self.tasks.note_dead(client);
        self.strike_where(client, |segment| segment.medium == Medium::Memory);
    }

    /// Strikes all segments of a client that was silent for too long, and forgets the client. No reader has a route
    /// to these segments any more.
    fn strike_client(&mut self, client: ClientId) {
        self.clear_doubt(client);
        self.clients.forget(client);
        self.tasks.note_dead(client);
        self.strike_where(client, |_| true);
    }

    /// Strikes the segments of a client for which `is_so` holds.
    pub(super) fn strike_where(&mut self, client: ClientId, is_so: impl Fn(&Segment) -> bool) {
        for slot in self.segments.of_client(client).to_vec() {
            if is_so(&self.segments[slot]) {
                self.strike(slot);
            }
        }
    }
}
