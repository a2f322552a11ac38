use std::collections::{BTreeMap, BTreeSet};

use mooncake_meta::KeyReport;
use mooncake_types::{Chance, ClientId, Epoch, ErrorCode, Version};

use crate::errand::LenderStep;
use crate::history::History;
use crate::ids::{ConnId, Process};
use crate::log::Log;
use crate::promises::Promises;
use crate::scenario::{Kind, Scenario};

/// How gets, puts and other operations ended, and how often faults occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Items of gets that returned right bytes.
    pub right: u64,
    /// Items of gets that found nothing.
    pub missed: u64,
    /// Items of gets that failed, by code.
    pub failed_gets: BTreeMap<ErrorCode, u64>,
    /// Items of gets that began with a cached route.
    pub hits: u64,
    /// Items of puts that are in place.
    pub puts: u64,
    /// Items of puts that failed, by code.
    pub failed_puts: BTreeMap<ErrorCode, u64>,
    /// Objects that were put part by part.
    pub sessions: u64,
    /// Keys that were removed.
    pub removed: u64,
    /// Entries that nodes were asked to drop.
    pub drops: u64,
    /// Writes that a node refused.
    pub refused_writes: u64,
    /// Copies and moves that succeeded.
    pub carried: u64,
    /// Objects that a new leader found again.
    pub survived: u64,
    /// Faults, by their names.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often each other counted thing occurred, by name.
    pub met: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// All counts but those of faults, by name.
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

/// A rule that was broken in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that was broken.
    pub rule: &'static str,
    /// The details of the violation.
    pub text: String,
}

/// State that all parts of a run share: randomness, log, tally, history and verdicts.
pub(crate) struct RunState {
    pub(crate) chance: Chance,
    pub(crate) log: Log,
    pub(crate) tally: Tally,
    pub(crate) history: History,
    /// How many events there were so far.
    pub(crate) event: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) keys: usize,
    pub(crate) most_len: u64,
    pub(crate) reads_mostly: bool,
    pub(crate) has_hot_caches: bool,
    pub(crate) has_fabric: bool,
    /// Longest rests of a client between two operations. Each one is equally likely.
    pub(crate) rests_us: [u64; 5],
    pub(crate) has_groups: bool,
    pub(crate) has_soft_pins: bool,
    /// Whether tenants have quotas, which bound what they may pin.
    pub(crate) has_quotas: bool,
    /// Whether a miss of a key that was readable all the time is a violation.
    pub(crate) judges_misses: bool,
    /// Whether a failed get is a violation: in this run nothing fails, and no segment leaves.
    pub(crate) judges_failures: bool,
    /// The faults have ended, and clients begin no new operations.
    pub(crate) is_ending: bool,
    /// Whether a second leader began. It may have found objects in the ledgers of nodes.
    pub(crate) has_recovered: bool,
    /// The epoch of the newest leader.
    pub(crate) newest_epoch: Epoch,
    /// Objects that the last leader could read and the present one has not found yet. By key, with their version and
    /// place.
    pub(crate) survivors: BTreeMap<usize, KeyReport>,
    /// What the pool still owes to the clients whose puts it acknowledged.
    pub(crate) promises: Promises,
    /// Errands of nodes that are to be run.
    pub(crate) errands: Vec<(Process, LenderStep)>,
    /// Ends and removals at masters that the client has not heard of yet, by the connection of the reply.
    noted: BTreeMap<ConnId, Vec<Note>>,
    /// Ends and removals that each client has heard of since it began its present operation.
    told: BTreeMap<ClientId, Vec<Note>>,
    /// The operation that each client began last.
    begun: BTreeMap<ClientId, Begun>,
    /// The client and operation for which each version was granted.
    puts: BTreeMap<Version, Deed>,
    /// The versions that became readable, by the put that they belong to.
    ended: BTreeMap<Deed, BTreeSet<Version>>,
}

#[derive(Default)]
struct Begun {
    /// The count of operations that the client has begun, this one included.
    number: u64,
    /// The key of each item. A key may occur twice: each item is a put of its own.
    keys: Vec<usize>,
}

/// One client's operation on one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Deed {
    client: ClientId,
    /// The count of operations that the client had begun by then.
    number: u64,
    key: usize,
    /// How many items of the operation name the key.
    items: usize,
}

#[derive(Clone, Copy, Debug)]
enum Note {
    End { key: usize, version: Version },
    Removal { key: usize, newest: Version },
}

impl RunState {
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
            has_fabric: scenario.has_fabric,
            rests_us: match scenario.rests_long {
                true => [1_000, 10_000, 100_000, 100_000, 100_000],
                false => [0, 1_000, 10_000, 10_000, 100_000],
            },
            has_groups: scenario.has_groups,
            has_soft_pins: scenario.has_soft_pins,
            has_quotas: scenario.has_quotas,
            judges_misses: kind == Kind::Calm,
            judges_failures: kind == Kind::Calm && (scenario.leave_in, scenario.drain_in) == (0, 0),
            is_ending: false,
            has_recovered: false,
            newest_epoch: Epoch(0),
            survivors: BTreeMap::new(),
            promises: Promises::default(),
            errands: Vec::new(),
            noted: BTreeMap::new(),
            told: BTreeMap::new(),
            begun: BTreeMap::new(),
            puts: BTreeMap::new(),
            ended: BTreeMap::new(),
        }
    }

    /// Notes a broken rule. Only the first one of a run is kept.
    pub(crate) fn blame(&mut self, rule: &'static str, text: String) {
        self.violation.get_or_insert(Violation { rule, text });
    }

    pub(crate) fn judge(&mut self, rule: &'static str, verdict: Result<(), String>) {
        if let Err(text) = verdict {
            self.blame(rule, text);
        }
    }

    /// Judges a read of this version, which began at event `began`.
    pub(crate) fn check_version(&mut self, key: usize, version: Version, began: u64) {
        let verdict = self.history.check(key, version, began, self.has_recovered);
        self.judge("reads are linearizable", verdict);
        self.history.know(key, version, self.event);
    }

    pub(crate) fn any_key(&mut self) -> usize {
        self.chance.below(self.keys as u64) as usize
    }

    /// A random length of an object.
    pub(crate) fn any_len(&mut self) -> u64 {
        match self.chance.below(4) {
            0 => self.most_len,
            _ => 1 + self.chance.below(self.most_len),
        }
    }

    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.tally.faults.entry(name).or_default() += 1;
    }

    /// Counts that something occurred `times` times.
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

    /// Notes that a master granted a put to a client.
    pub(crate) fn note_grant(&mut self, client: ClientId, key: usize, version: Version) {
        self.history.grant(key, version);
        if let Some(begun) = self.begun.get(&client) {
            let items = begun.keys.iter().filter(|&&named| named == key).count();
            self.puts.insert(version, Deed { client, number: begun.number, key, items });
        }
    }

    /// Notes that a master ended a put. Its reply travels on the connection `over`.
    pub(crate) fn note_end(&mut self, over: ConnId, key: usize, version: Version) {
        self.history.end(key, version);
        self.promises.note_newer(key, version);
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

    /// Notes that a master removed the object under a key. Its reply travels on the connection `over`.
    pub(crate) fn note_removal(&mut self, over: ConnId, key: usize, newest: Version) {
        self.noted.entry(over).or_default().push(Note::Removal { key, newest });
    }

    /// Notes that a client received the reply on this connection, and with it what the master did.
    pub(crate) fn hear(&mut self, over: ConnId, client: ClientId) {
        if let Some(notes) = self.noted.remove(&over) {
            self.told.entry(client).or_default().extend(notes);
        }
    }

    /// Notes that a client begins an operation whose items have these keys. Earlier replies no longer matter.
    pub(crate) fn begin(&mut self, client: ClientId, keys: &[usize]) {
        self.told.remove(&client);
        let begun = self.begun.entry(client).or_default();
        *begun = Begun { number: begun.number + 1, keys: keys.to_vec() };
    }

    fn told(&self, client: ClientId) -> &[Note] {
        self.told.get(&client).map_or(&[], Vec::as_slice)
    }

    /// Notes that a client knows its put of a key to be complete.
    pub(crate) fn acknowledge_put(&mut self, client: ClientId, key: usize) {
        let of_key = |note: &Note| match *note {
            Note::End { key: ended, version } if ended == key => Some(version),
            _ => None,
        };
        if let Some(version) = self.told(client).iter().filter_map(of_key).max() {
            self.history.know(key, version, self.event);
        }
    }

    /// Notes that a client knows the outcome of its removals. `is_done` tells which keys were removed.
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
