//! What the pool owes: an acknowledged object may be gone only because it was removed, replaced or evicted, or because
//! every node that held it is gone. That a master ordered it is no excuse.

use std::collections::{BTreeMap, BTreeSet};

use mooncake_meta::{Config, Effect, Meta};
use mooncake_node::{Entry, EntryState};
use mooncake_types::{ClientId, Medium, SegmentId, Version};

use crate::key::{KEYS, number_of};
use crate::node::Node;
use crate::store::Store;
use crate::world::World;

/// What happened to the versions of all keys.
#[derive(Debug, Default)]
pub(crate) struct Promises {
    /// The versions of which nodes held all bytes after the last event, with their keys.
    held: BTreeMap<Version, usize>,
    /// By key, the newest version that took the place of older ones.
    newest: BTreeMap<usize, Version>,
    /// By key, the newest version that a master removed on request.
    removed: BTreeMap<usize, Version>,
    /// Versions that a master evicted.
    evicted: BTreeSet<Version>,
    /// Versions of nodes that are gone, or went since the last event.
    gone: BTreeSet<Version>,
    /// Segments that the record struck, and others that could tell what those lacked, each with segments that were behind
    /// since before it.
    struck: Vec<(SegmentId, Vec<SegmentId>)>,
    /// Segments that lack changes which only a segment could tell that is gone, or for which the record had no room.
    untold: BTreeSet<SegmentId>,
    /// For how long a master led so far.
    led: Leadership,
    /// `led` when a leader last heard of each client.
    heard: BTreeMap<ClientId, Leadership>,
    /// For how long leaders did not hear of each client, the longest time since they last took a segment of it.
    longest_silence: BTreeMap<ClientId, Leadership>,
    checked_us: u64,
}

/// Time of leaders, in microseconds: with and without the time in which they were paused. A leader that goes on after a
/// pause cannot always tell that it was paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Leadership {
    awake_us: u64,
    all_us: u64,
}

impl Leadership {
    fn since(self, earlier: Self) -> Self {
        Self { awake_us: self.awake_us - earlier.awake_us, all_us: self.all_us - earlier.all_us }
    }

    /// Whether leaders may give up a client of which they did not hear for this time.
    fn is_ttl(self, ttl_us: u64) -> bool {
        // Clocks of leaders may run faster than virtual time.
        self.all_us >= ttl_us / 100 * 98 && self.awake_us >= ttl_us / 2
    }
}

/// What a master gave to readers before a change: by key, the version and its places.
pub(crate) type Served = BTreeMap<usize, (Version, Vec<(SegmentId, u64)>)>;

/// What a master gives to readers.
pub(crate) fn served(meta: &Meta, keys: usize) -> Served {
    let of_key = |key: usize| {
        let report = meta.peek(KEYS[key]).filter(|report| report.complete)?;
        let places = report.located.placements.iter();
        let places = places.map(|it| (report.segments[it.segment as usize].id, it.offset));
        Some((key, (report.located.version, places.collect())))
    };
    (0..keys).filter_map(of_key).collect()
}

impl Promises {
    /// A node is gone, or about to be, with what it holds.
    pub(crate) fn note_gone(&mut self, node: &Node) {
        self.gone.extend(node.ledger().entries().map(|(_, entry)| entry.version));
    }

    /// A node lost bytes of a version. Nobody can tell then whether its put had ended, so older versions are over, too.
    pub(crate) fn note_lost(&mut self, key: usize, version: Version) {
        self.gone.insert(version);
        self.note_newer(key, version);
    }

    /// A version was completed, or is given to readers. Older ones are over.
    pub(crate) fn note_newer(&mut self, key: usize, version: Version) {
        let newest = self.newest.entry(key).or_default();
        *newest = version.max(*newest);
    }

    /// A master removed a version on request.
    pub(crate) fn note_removed(&mut self, key: usize, version: Version) {
        let removed = self.removed.entry(key).or_default();
        *removed = version.max(*removed);
    }

    /// A master evicted something: each replica that it does not have any more may be what it evicted, and so may each
    /// version that it did not give to readers, as a part of it is out of sight.
    pub(crate) fn note_evicted(&mut self, before: &Served, after: &Served) {
        let hidden = self.held.iter().filter(|(_, key)| !before.contains_key(key));
        self.evicted.extend(hidden.map(|(&version, _)| version));
        for (key, (version, places)) in before {
            let left = after.get(key).filter(|(left, _)| left == version);
            if !left.is_some_and(|(_, left)| places.iter().all(|place| left.contains(place))) {
                self.evicted.insert(*version);
            }
        }
    }

    /// A change is about to be written to the record.
    pub(crate) fn note_written(&mut self, effect: Effect, store: &Store) {
        match effect {
            Effect::Strike(id) => {
                self.struck.push((id, store.behind_before(id)));
                // If one of these is gone, it takes the struck one along.
                self.struck.extend(store.ahead_of(id).into_iter().map(|it| (it, vec![id])));
            }
            // It has no room for what later leaders would have to know.
            Effect::MarkBehind(id, since) if since == Version::default() && store.is_full() => {
                self.untold.insert(id);
            }
            _ => {}
        }
    }

    /// A leader heard of a client.
    pub(crate) fn note_heard(&mut self, client: ClientId) {
        let silence = self.led.since(self.heard.insert(client, self.led).unwrap_or_default());
        let longest = self.longest_silence.entry(client).or_default();
        *longest = silence.max(*longest);
    }

    /// A leader took a segment of a client, with what it holds.
    pub(crate) fn note_mounted(&mut self, client: ClientId) {
        self.longest_silence.remove(&client);
    }

    /// Whether leaders may have given up the segments of a client, as they have not heard of it for so long.
    fn is_given_up(&self, client: ClientId, ttl_us: u64) -> bool {
        let silence = self.led.since(self.heard.get(&client).copied().unwrap_or_default());
        let longest = self.longest_silence.get(&client).copied().unwrap_or_default();
        silence.is_ttl(ttl_us) || longest.is_ttl(ttl_us)
    }

    fn is_over(&self, key: usize, version: Version) -> bool {
        self.newest.get(&key).is_some_and(|&newest| newest > version)
            || self.removed.get(&key).is_some_and(|&removed| removed >= version)
            || self.evicted.contains(&version)
            || self.gone.contains(&version)
    }
}

impl World {
    /// Blames each promised version of which the last node has dropped its entry.
    pub(crate) fn check_promises(&mut self) {
        self.note_leadership();
        self.note_untold();
        let leads = self.leader().is_alive && self.leader().leads;
        if leads {
            for key in 0..self.run_state.keys {
                if let Some(version) = crate::master::version_of(&self.leader().meta, key) {
                    self.run_state.promises.note_newer(key, version);
                }
            }
        }
        let held = self.whole_versions();
        let promises = &mut self.run_state.promises;
        let before = std::mem::replace(&mut promises.held, held);
        let lost = before.iter().filter(|(version, _)| !promises.held.contains_key(version));
        let lost: Vec<(Version, usize)> = lost.map(|(&version, &key)| (version, key)).collect();
        let run_state = &self.run_state;
        let is_owed = |&&(version, key): &&(Version, usize)| {
            // Of two versions that nodes hold, a leader serves the newer one.
            let is_newer = |&(&other, &of): &(&Version, &usize)| of == key && other > version;
            !run_state.promises.is_over(key, version)
                && !run_state.promises.held.iter().any(|it| is_newer(&it))
                && run_state.history.is_newest_known(key, version)
                // The record may cost a key that changed before, if it has no room to be exact.
                && !self.store.is_filtered(KEYS[key], version)
        };
        if let Some((version, key)) = lost.iter().find(is_owed) {
            let text = format!("{version} of key {key} is on no node any more");
            self.run_state.blame("an acknowledged object outlives the orders of masters", text);
        }
        self.run_state.promises.gone.clear();
    }

    /// Whether a node of this host counts as gone: its memory is, or leaders have not heard of it for the time to live.
    fn is_gone(&self, number: usize, node: &Node) -> bool {
        let ttl_ms = match node.medium {
            Medium::Memory => self.scenario.client_ttl_ms,
            _ => Config::default().disk_ttl_ms,
        };
        let client = self.members[number].client;
        // A leader may know that it strikes the segment before the record does.
        let mut ahead = self.store.ahead_of(node.segment()).into_iter();
        if self.run_state.promises.untold.contains(&node.segment())
            || ahead.any(|id| !self.is_somewhere(id))
        {
            return true;
        }
        (!self.hosts[number].is_alive && !node.is_named())
            || self.run_state.promises.is_given_up(client, 1_000 * ttl_ms)
    }

    /// Whether a node has a segment still.
    fn is_somewhere(&self, id: SegmentId) -> bool {
        let mut nodes = self.hosts.iter().flat_map(|host| &host.nodes);
        nodes.any(|node| node.segment() == id)
    }

    /// The versions of which nodes hold all bytes, in one entry or in several.
    fn whole_versions(&mut self) -> BTreeMap<Version, usize> {
        let mut pieces: BTreeMap<Version, Vec<(u64, &Entry)>> = BTreeMap::new();
        let mut gone = Vec::new();
        let nodes = self.hosts.iter().enumerate();
        let nodes = nodes.flat_map(|(number, host)| host.nodes.iter().map(move |it| (number, it)));
        for (number, node) in nodes {
            let is_gone = self.is_gone(number, node);
            for (_, entry) in node.ledger().entries() {
                if is_gone {
                    gone.push(entry.version);
                } else if entry.state == EntryState::Complete {
                    pieces.entry(entry.version).or_default().push((entry.object_offset, entry));
                }
            }
        }
        let is_whole = |pieces: &mut Vec<(u64, &Entry)>| {
            pieces.sort_by_key(|piece| piece.0);
            let end = pieces.iter().fold(0, |end, &(at, entry)| match at <= end {
                true => end.max(at + entry.len),
                false => end,
            });
            end >= pieces[0].1.object_len
        };
        let whole = pieces.into_iter().filter_map(|(version, mut pieces)| {
            is_whole(&mut pieces).then(|| (version, number_of(&pieces[0].1.key)))
        });
        let whole = whole.collect();
        self.run_state.promises.gone.extend(gone);
        whole
    }

    /// If a segment is gone that alone could tell what others lack, these may start empty, too.
    fn note_untold(&mut self) {
        // A named segment that another process lends may lack entries.
        let nodes = self.hosts.iter().flat_map(|host| &host.nodes);
        let restarted = nodes.filter(|node| node.run > 1 && node.medium == Medium::Memory);
        let behind = restarted.flat_map(|node| self.store.behind_before(node.segment()));
        self.run_state.promises.untold.extend(behind);
        for (id, behind) in std::mem::take(&mut self.run_state.promises.struck) {
            if !self.is_somewhere(id) {
                self.run_state.promises.untold.extend(behind);
            }
        }
    }

    /// Counts the time in which a master leads.
    fn note_leadership(&mut self) {
        let now_us = self.net.now_us;
        let is_paused = self.paused.contains_key(&self.leader().process.site);
        let leads = self.leader().is_sure(now_us);
        let promises = &mut self.run_state.promises;
        let passed_us = now_us - std::mem::replace(&mut promises.checked_us, now_us);
        promises.led.all_us += passed_us * u64::from(leads);
        promises.led.awake_us += passed_us * u64::from(leads && !is_paused);
    }
}
