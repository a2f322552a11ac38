use std::collections::{BTreeMap, BTreeSet};

use mooncake_meta::KeyReport;
use mooncake_types::{Chance, ClientId, Epoch, ErrorCode, Version};

use crate::errand::Errand;
use crate::history::History;
use crate::ids::{ConnId, Process};
use crate::log::Log;
use crate::scenario::{Kind, Scenario};

/// How gets and writes ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Items of gets that returned right bytes.
    pub right: u64,
    /// Items of gets that found nothing.
    pub missed: u64,
    /// Items of gets that failed, by code.
    pub failed_gets: BTreeMap<ErrorCode, u64>,
    /// Items of gets that began with a known route.
    pub hits: u64,
    /// Items of puts that are in place.
    pub puts: u64,
    /// Items of puts that failed, by code.
    pub failed_puts: BTreeMap<ErrorCode, u64>,
    /// Objects that were written part by part.
    pub sessions: u64,
    /// Keys that were removed.
    pub removed: u64,
    /// Entries that nodes were asked to drop.
    pub drops: u64,
    /// Writes that a node refused.
    pub refused_writes: u64,
    /// Copies and moves that ended well.
    pub carried: u64,
    /// Objects that a new leader found again.
    pub survived: u64,
    /// Faults, by their names.
    pub faults: BTreeMap<&'static str, u64>,
    /// What else was met, by its name.
    pub met: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Everything but faults, by name.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let named = [
            ("right reads", self.right),
            ("misses", self.missed),
            ("failed reads", self.failed_gets.values().sum()),
            ("known routes", self.hits),
            ("puts", self.puts),
            ("failed puts", self.failed_puts.values().sum()),
            ("puts part by part", self.sessions),
            ("removals", self.removed),
            ("drops", self.drops),
            ("refused writes", self.refused_writes),
            ("copies and moves", self.carried),
            ("objects that outlived a leader", self.survived),
        ];
        named.into_iter().chain(self.met.iter().map(|(&name, &count)| (name, count))).collect()
    }
}

/// What a run found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken.
    pub rule: &'static str,
    /// What happened.
    pub text: String,
}

/// What everybody in a run writes to and draws from.
pub(crate) struct Desk {
    pub(crate) chance: Chance,
    pub(crate) log: Log,
    pub(crate) tally: Tally,
    pub(crate) history: History,
    /// Events so far.
    pub(crate) event: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) keys: usize,
    pub(crate) most_len: u64,
    pub(crate) reads_mostly: bool,
    pub(crate) has_hot_caches: bool,
    /// Longest rests of a client between two things that it does, each as likely as the others.
    pub(crate) rests_us: [u64; 5],
    pub(crate) has_groups: bool,
    pub(crate) has_soft_pins: bool,
    /// Whether a miss of a key that was there all the time is a mistake.
    pub(crate) judges_misses: bool,
    /// Whether a get that fails is a mistake: nothing fails, and no segment leaves.
    pub(crate) judges_failures: bool,
    /// No faults and no new operations any more.
    pub(crate) is_ending: bool,
    /// A later leader found objects in the ledgers of nodes.
    pub(crate) has_recovered: bool,
    /// Of the newest leader.
    pub(crate) newest_epoch: Epoch,
    /// What could be read when the last master died and was not found by the next yet: by key, the version and where it
    /// lay.
    pub(crate) survivors: BTreeMap<usize, KeyReport>,
    /// What nodes have to go on with.
    pub(crate) errands: Vec<(Process, Errand)>,
    /// What masters did, by the connection over which its client will hear of it.
    noted: BTreeMap<ConnId, Vec<Note>>,
    /// What clients heard of since they began what they are doing.
    told: BTreeMap<ClientId, Vec<Note>>,
    /// What each client began last.
    begun: BTreeMap<ClientId, Begun>,
    /// For what each version was granted.
    puts: BTreeMap<Version, Deed>,
    /// As which versions each has become readable.
    ended: BTreeMap<Deed, BTreeSet<Version>>,
}

#[derive(Default)]
struct Begun {
    /// The how manieth it is.
    number: u64,
    /// The keys of its items. One may be there twice: each of its items is a put of its own.
    keys: Vec<usize>,
}

/// What a client did with one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Deed {
    client: ClientId,
    /// The how manieth it was of what the client did.
    number: u64,
    key: usize,
    /// How many of its items name the key.
    items: usize,
}

#[derive(Clone, Copy, Debug)]
enum Note {
    End { key: usize, version: Version },
    Removal { key: usize, newest: Version },
}

impl Desk {
    pub(crate) fn new(scenario: &Scenario, kind: Kind, chance: Chance, log: Log) -> Self {
        Self {
            chance,
            log,
            tally: Tally::default(),
            history: History::default(),
            event: 0,
            violation: None,
            keys: scenario.keys,
            most_len: scenario.most_len,
            reads_mostly: scenario.reads_mostly,
            has_hot_caches: scenario.has_hot_caches,
            rests_us: match scenario.has_rivals {
                true => [1_000, 10_000, 100_000, 100_000, 100_000],
                false => [0, 1_000, 10_000, 10_000, 100_000],
            },
            has_groups: scenario.has_groups,
            has_soft_pins: scenario.has_soft_pins,
            judges_misses: kind == Kind::Calm,
            judges_failures: kind == Kind::Calm && (scenario.leave_in, scenario.drain_in) == (0, 0),
            is_ending: false,
            has_recovered: false,
            newest_epoch: Epoch(0),
            survivors: BTreeMap::new(),
            errands: Vec::new(),
            noted: BTreeMap::new(),
            told: BTreeMap::new(),
            begun: BTreeMap::new(),
            puts: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Notes that a rule was broken; the first time counts.
    pub(crate) fn blame(&mut self, rule: &'static str, text: String) {
        self.violation.get_or_insert(Violation { rule, text });
    }

    pub(crate) fn judge(&mut self, rule: &'static str, verdict: Result<(), String>) {
        if let Err(text) = verdict {
            self.blame(rule, text);
        }
    }

    /// A read that began at that event returned this version.
    pub(crate) fn check_version(&mut self, key: usize, version: Version, began: u64) {
        let verdict = self.history.check(key, version, began, self.has_recovered);
        self.judge("reads are linearizable", verdict);
        self.history.know(key, version, self.event);
    }

    pub(crate) fn any_key(&mut self) -> usize {
        self.chance.below(self.keys as u64) as usize
    }

    /// The length of some object.
    pub(crate) fn any_len(&mut self) -> u64 {
        match self.chance.below(4) {
            0 => self.most_len,
            _ => 1 + self.chance.below(self.most_len),
        }
    }

    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.tally.faults.entry(name).or_default() += 1;
    }

    /// Something was met that many times.
    pub(crate) fn meet(&mut self, name: &'static str, times: u64) {
        if times > 0 {
            *self.tally.met.entry(name).or_default() += times;
        }
    }

    pub(crate) fn count_put(&mut self, result: Result<(), ErrorCode>) {
        match result {
            Ok(()) => self.tally.puts += 1,
            Err(code) => *self.tally.failed_puts.entry(code).or_default() += 1,
        }
    }

    pub(crate) fn count_failed_get(&mut self, code: ErrorCode) {
        match code {
            ErrorCode::ObjectNotFound | ErrorCode::ReplicaIsNotReady => self.tally.missed += 1,
            code => *self.tally.failed_gets.entry(code).or_default() += 1,
        }
    }

    /// A master has granted a put to a client.
    pub(crate) fn note_grant(&mut self, client: ClientId, key: usize, version: Version) {
        self.history.grant(key, version);
        if let Some(begun) = self.begun.get(&client) {
            let items = begun.keys.iter().filter(|&&named| named == key).count();
            self.puts.insert(version, Deed { client, number: begun.number, key, items });
        }
    }

    /// A master has taken the end of a put; `over` is the connection that says so.
    pub(crate) fn note_end(&mut self, over: ConnId, key: usize, version: Version) {
        self.history.end(key, version);
        if let Some(&deed) = self.puts.get(&version) {
            let ended = self.ended.entry(deed).or_default();
            ended.insert(version);
            if ended.len() > deed.items {
                let items = deed.items;
                let text = format!("{ended:?} of key {key} have ended, of {items} items of a put");
                self.blame("a put takes effect once", text);
            }
        }
        self.noted.entry(over).or_default().push(Note::End { key, version });
    }

    /// A master has removed what it had under a key.
    pub(crate) fn note_removal(&mut self, over: ConnId, key: usize, newest: Version) {
        self.noted.entry(over).or_default().push(Note::Removal { key, newest });
    }

    /// A reply has come over a connection.
    pub(crate) fn hear(&mut self, over: ConnId, client: ClientId) {
        if let Some(notes) = self.noted.remove(&over) {
            self.told.entry(client).or_default().extend(notes);
        }
    }

    /// A client begins something new, whose items have these keys: what it was told before has been dealt with.
    pub(crate) fn begin(&mut self, client: ClientId, keys: &[usize]) {
        self.told.remove(&client);
        let begun = self.begun.entry(client).or_default();
        *begun = Begun { number: begun.number + 1, keys: keys.to_vec() };
    }

    fn told(&self, client: ClientId) -> &[Note] {
        self.told.get(&client).map_or(&[], Vec::as_slice)
    }

    /// A client was told that what it put under a key is in place.
    pub(crate) fn acknowledge_put(&mut self, client: ClientId, key: usize) {
        let of_key = |note: &Note| match *note {
            Note::End { key: ended, version } if ended == key => Some(version),
            _ => None,
        };
        if let Some(version) = self.told(client).iter().filter_map(of_key).max() {
            self.history.know(key, version, self.event);
        }
    }

    /// A client was told what became of removals: those of these keys are done.
    pub(crate) fn acknowledge_removals(
        &mut self,
        client: ClientId,
        is_done: impl Fn(usize) -> bool,
    ) {
        for note in self.told(client).to_vec() {
            if let Note::Removal { key, newest } = note
                && is_done(key)
            {
                self.history.remove(key, newest, self.event);
                self.tally.removed += 1;
            }
        }
    }
}
