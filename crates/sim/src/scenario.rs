use mooncake_types::Chance;

/// What a run is made of. All of it follows from the run's number.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Events until the faults end.
    pub events: u64,
    pub(crate) nodes: usize,
    pub(crate) pure_clients: usize,
    pub(crate) keys: usize,
    pub(crate) segment_len: u64,
    pub(crate) most_len: u64,
    pub(crate) lease_ms: u64,
    pub(crate) client_ttl_ms: u64,
    pub(crate) put_discard_ms: u64,
    pub(crate) put_release_ms: u64,
    pub(crate) stripe_threshold: u64,
    pub(crate) latency_us: u64,
    /// Clocks run up to so many microseconds in a second too fast or too slow.
    pub(crate) drift: u64,
    /// Whether the processes of one number share a host, and with it memory.
    pub(crate) has_neighbours: bool,
    /// Whether segments are named: nodes that die come back with what was complete in them.
    pub(crate) has_named: bool,
    /// Length of each node's disk in bytes; zero if there are none.
    pub(crate) disk_len: u64,
    /// Whether objects go to a disk only when they are evicted; whether they may be evicted all the same if they cannot.
    pub(crate) sinks: bool,
    pub(crate) forces_eviction: bool,
    /// Whether what is read from a disk comes back to memory.
    pub(crate) promotes: bool,
    /// Whether some of that found no room in the record that outlives a process.
    pub(crate) is_forgetful: bool,
    pub(crate) faults: Faults,
    /// Whether most of what is done is to get objects.
    pub(crate) reads_mostly: bool,
    /// Whether processes keep copies of what they read from other machines.
    pub(crate) has_hot_caches: bool,
    pub(crate) has_groups: bool,
    pub(crate) has_soft_pins: bool,
    /// Whether what is soft-pinned is evicted when nothing else is left.
    pub(crate) evicts_soft_pinned: bool,
    /// Used share of a segment above which its objects are evicted before anybody wants the room.
    pub(crate) watermark: f64,
    /// Whether what is read often gets more replicas.
    pub(crate) replicates: bool,
    /// An operator begins or ends a drain job at one event in so many; never if zero.
    pub(crate) drain_in: u64,
    /// How long routes may be used after the last word of the leader that named them, or after its lease.
    pub(crate) routes_last_ms: u64,
    /// How long a lease of leadership lasts, and how much longer its holder may wait to resume it; where there are two masters.
    pub(crate) leadership_ms: u64,
    pub(crate) suspension_ms: u64,
    /// A node takes its segment back before one in so many things that it does; never if zero.
    pub(crate) leave_in: u64,
    /// Whether some stay with every leader that has lost the coordinator, while the others find the next one.
    pub(crate) has_rivals: bool,
    /// The longest time for which a master cannot ask about leases.
    pub(crate) longest_away_ms: u64,
}

/// What may go wrong: each happens at one event in so many, and never if it is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// A connection breaks while something is sent over it.
    pub(crate) reset_in: u64,
    /// A message takes a hundred times as long as usual.
    pub(crate) straggler_in: u64,
    /// Two processes cannot reach each other for a while, or only one the other.
    pub(crate) partition_in: u64,
    /// A process that lends memory dies, and comes back, empty or with its memory.
    pub(crate) node_death_in: u64,
    /// A process that lends none dies, and comes back.
    pub(crate) client_death_in: u64,
    /// A process stands still for a while.
    pub(crate) pause_in: u64,
    /// The master dies, and comes back.
    pub(crate) master_death_in: u64,
    /// One of two masters cannot ask about leases for a while: once in so many milliseconds, in the mean.
    pub(crate) away_every_ms: u64,
}

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing fails, and a get finds what is there all the time.
    Calm,
    /// Connections break, messages are late, networks part.
    Network,
    /// Processes die, stand still and come back.
    Processes,
    /// The master dies too, and comes back.
    Masters,
    /// There are two masters, and a lease says which of them leads.
    Leaders,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::Calm, Kind::Network, Kind::Processes, Kind::Masters, Kind::Leaders];

    /// What it is called where runs are chosen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Masters => "masters",
            Self::Leaders => "leaders",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

fn one_of<T: Copy>(chance: &mut Chance, of: &[T]) -> T {
    of[chance.below(of.len() as u64) as usize]
}

/// Each run has some of the faults, so that each meets states that the others would keep it from.
fn maybe(chance: &mut Chance, one_in: &[u64]) -> u64 {
    if chance.below(2) == 0 { 0 } else { one_of(chance, one_in) }
}

impl Scenario {
    /// The run of that number.
    #[must_use]
    pub fn new(seed: u64, kind: Kind, events: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5ce_0a10);
        let chance = &mut chance;
        let is_large = chance.below(4) == 0;
        let most_len = if is_large { 300_000 } else { one_of(chance, &[60, 300, 900]) };
        let room = one_of(chance, &[2, 4, 8, 30]);
        let latency_us = one_of(chance, &[50, 500, 3_000]);
        // Shorter than late writers take, at times: what their ranges are given to must be safe from them all the same.
        let put_discard_ms = one_of(chance, &[20, 100, 400, 3_000]).max(latency_us / 15);
        let has_deaths = matches!(kind, Kind::Processes | Kind::Masters | Kind::Leaders);
        let mut apart = Chance::new(seed ^ 0xa6a_1a57);
        let has_named = has_deaths && apart.below(2) == 0;
        let is_forgetful = apart.below(2) == 0;
        let (is_plain, tightness) = (apart.below(2) == 0, apart.below(3));
        let has_rivals = kind == Kind::Leaders && apart.below(4) == 0;
        let scenario = Self {
            events,
            nodes: one_of(chance, &[1, 2, 2, 3, 3]),
            pure_clients: one_of(chance, &[1, 2, 3]),
            keys: one_of(chance, &[2, 3, 5, 12]),
            segment_len: (most_len * room).max(1 << 10),
            most_len,
            lease_ms: one_of(chance, &[20, 100, 400]),
            client_ttl_ms: one_of(chance, &[300, 1_000, 2_000]),
            put_discard_ms,
            put_release_ms: put_discard_ms + one_of(chance, &[0, 50, 3_000]),
            stripe_threshold: one_of(chance, &[0, 64 << 10]),
            latency_us,
            drift: one_of(chance, &[0, 2_000]),
            has_neighbours: chance.below(2) == 0,
            has_named,
            disk_len: 0,
            sinks: false,
            forces_eviction: false,
            promotes: false,
            is_forgetful,
            faults: Faults::new(chance, kind),
            reads_mostly: false,
            has_hot_caches: Chance::new(seed ^ 0x4071_cac4).below(2) == 0,
            has_groups: chance.below(2) == 0,
            has_soft_pins: chance.below(2) == 0,
            evicts_soft_pinned: chance.below(4) > 0,
            watermark: one_of(chance, &[1.0, 0.9]),
            replicates: chance.below(2) == 0,
            drain_in: maybe(chance, &[40, 150]),
            // What outlives a process is lent for as long as that.
            leave_in: maybe(chance, &[15, 60]) * u64::from(!has_named),
            leadership_ms: one_of(chance, &[50, 150, 500]),
            routes_last_ms: one_of(chance, &[100, 300, 1_000]),
            suspension_ms: one_of(chance, &[300, 1_000]),
            has_rivals: false,
            longest_away_ms: 1_500,
        };
        let scenario = scenario.with_disks(&mut Chance::new(seed ^ 0xd15c_d15c));
        match (is_plain, tightness) {
            _ if has_rivals => scenario.without_extras().with_rivals(&mut apart),
            (false, _) => scenario,
            (true, 0) => scenario.without_extras(),
            (true, 1) => scenario.without_extras().crowded(kind),
            (true, _) => scenario.without_extras().read_mostly(),
        }
    }

    /// Half of the runs that are not of puts, gets and removals alone have disks.
    fn with_disks(self, apart: &mut Chance) -> Self {
        if apart.below(2) > 0 {
            return self;
        }
        Self {
            disk_len: self.segment_len * one_of(apart, &[1, 3]),
            sinks: apart.below(2) == 0,
            forces_eviction: apart.below(2) == 0,
            promotes: apart.below(2) == 0,
            leave_in: 0,
            ..self
        }
    }

    /// Half of the runs are of puts, gets and removals alone: all else makes the states rarer in which those go wrong.
    fn without_extras(self) -> Self {
        Self {
            has_groups: false,
            has_soft_pins: false,
            watermark: 1.0,
            replicates: false,
            drain_in: 0,
            leave_in: 0,
            disk_len: 0,
            ..self
        }
    }

    /// There is hardly any room: ranges are granted again while those are at work who had them before.
    fn crowded(self, kind: Kind) -> Self {
        let put_discard_ms = 20.max(self.latency_us / 15);
        let mut faults = self.faults;
        if kind != Kind::Calm {
            faults.straggler_in = 10;
        }
        if faults.pause_in > 0 {
            faults.pause_in = 25;
        }
        Self {
            keys: self.keys.min(3),
            segment_len: (2 * self.most_len).max(1 << 10),
            put_discard_ms,
            put_release_ms: put_discard_ms,
            has_neighbours: true,
            faults,
            ..self
        }
    }

    /// Many read the same few keys by routes that they know, while those are replaced.
    fn read_mostly(self) -> Self {
        let lease_ms = self.lease_ms.max(100);
        Self { pure_clients: 3, keys: 2, lease_ms, reads_mostly: true, ..self }
    }

    /// A leader that has lost the coordinator keeps some nodes, while the others have found the next one, and readers know
    /// routes of the first. What either may do follows from leases, so the run outlasts them: it is longer, ways are short,
    /// and everybody takes their time. Nobody dies.
    fn with_rivals(self, apart: &mut Chance) -> Self {
        let Faults { reset_in, straggler_in, away_every_ms, .. } = self.faults;
        Self {
            events: 4 * self.events,
            nodes: self.nodes.max(2),
            latency_us: self.latency_us.min(500),
            lease_ms: one_of(apart, &[400, 1_000]),
            leadership_ms: one_of(apart, &[50, 150]),
            routes_last_ms: one_of(apart, &[300, 1_000]),
            suspension_ms: 3_000,
            longest_away_ms: 4_000,
            has_rivals: true,
            faults: Faults { reset_in, straggler_in, away_every_ms, ..Faults::default() },
            ..self.read_mostly()
        }
    }
}

impl Faults {
    fn new(chance: &mut Chance, kind: Kind) -> Self {
        let mut faults = Self::default();
        if kind == Kind::Calm {
            return faults;
        }
        faults.reset_in = maybe(chance, &[20, 60, 200]);
        faults.straggler_in = maybe(chance, &[10, 50]);
        faults.partition_in = maybe(chance, &[40, 120]);
        if kind == Kind::Network {
            return faults;
        }
        faults.node_death_in = maybe(chance, &[40, 150]);
        faults.client_death_in = maybe(chance, &[30, 100]);
        faults.pause_in = maybe(chance, &[25, 100]);
        if let Kind::Masters | Kind::Leaders = kind {
            faults.master_death_in = one_of(chance, &[60, 150, 300]);
        }
        if kind == Kind::Leaders {
            faults.away_every_ms = 1_000;
        }
        faults
    }
}
