use mooncake_types::{Chance, limits};

/// The parameters of a run. All of them follow from its seed, kind and number of events.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How many events there are until the faults end.
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
    /// How many microseconds in a second clocks may run too fast or too slow.
    pub(crate) drift: u64,
    /// Whether the first two members share a host, and with it memory.
    pub(crate) has_neighbours: bool,
    /// Whether segments in memory are named: a node that died comes back with its complete entries.
    pub(crate) has_named: bool,
    /// Length of each node's disk in bytes; zero if there are none.
    pub(crate) disk_len: u64,
    /// Whether objects are offloaded only when they are evicted. `forces_eviction`: whether they are evicted even if
    /// they cannot be offloaded.
    pub(crate) sinks: bool,
    pub(crate) forces_eviction: bool,
    /// Whether a read from a disk promotes the object to memory.
    pub(crate) promotes: bool,
    /// Whether the rows of a named segment lack room for some complete entries.
    pub(crate) is_forgetful: bool,
    pub(crate) faults: Faults,
    /// Whether most operations are gets.
    pub(crate) reads_mostly: bool,
    /// Whether processes keep copies of ranges that they read on other hosts.
    pub(crate) has_hot_caches: bool,
    /// Whether processes read and write memory of other hosts one-sided.
    pub(crate) has_fabric: bool,
    pub(crate) has_groups: bool,
    /// Whether tenants have quotas.
    pub(crate) has_quotas: bool,
    pub(crate) has_soft_pins: bool,
    /// Whether soft-pinned objects are evicted when nothing else is left.
    pub(crate) evicts_soft_pinned: bool,
    /// Used share of a segment above which its objects are evicted before a put needs the room.
    pub(crate) watermark: f64,
    /// Whether objects that are read often get more replicas.
    pub(crate) replicates: bool,
    /// An operator orders or cancels a drain at one event in this many; never if zero.
    pub(crate) drain_in: u64,
    /// How long routes may be used after the end of the leader's lease, or after its last answer if it needs no lease.
    pub(crate) routes_last_ms: u64,
    /// How long a lease of leadership lasts, if there are two masters. `suspension_ms`: how much longer its holder may
    /// wait to resume it.
    pub(crate) leadership_ms: u64,
    pub(crate) suspension_ms: u64,
    /// A node takes its segment back before one in this many of its operations; never if zero.
    pub(crate) leave_in: u64,
    /// Whether a leader that loses the coordinator keeps some members, while others find the next leader.
    pub(crate) has_rivals: bool,
    /// Whether clients rest for long between two operations, so that leases and leaders end meanwhile.
    pub(crate) rests_long: bool,
    /// The longest time for which a master cannot reach the coordinator.
    pub(crate) longest_away_ms: u64,
    /// Most overruled keys that the record keeps one by one, and in its filter.
    pub(crate) most_overruled: (usize, usize),
}

/// The odds of each fault: one in this many events or messages; never if zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    /// A connection breaks while a message is sent.
    pub(crate) reset_in: u64,
    /// A message takes a hundred times as long as usual.
    pub(crate) straggler_in: u64,
    /// Bytes of a one-sided request land up to a minute later.
    pub(crate) late_request_in: u64,
    /// Two sites cannot reach each other for a while, or only one cannot reach the other.
    pub(crate) partition_in: u64,
    /// A process that lends memory dies. Another starts in its place, empty or with its memory.
    pub(crate) node_death_in: u64,
    /// A process that lends nothing dies, and another starts in its place.
    pub(crate) client_death_in: u64,
    /// A process is paused for a while.
    pub(crate) pause_in: u64,
    /// A master dies, and another process starts in its place.
    pub(crate) master_death_in: u64,
    /// A master cannot reach the coordinator for a while: once in this many milliseconds on average.
    pub(crate) away_every_ms: u64,
    /// A node finds that the bytes of an entry are lost.
    pub(crate) loss_in: u64,
}

/// Which kinds of faults a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing fails, and a get must find each key that is readable all the time.
    Calm,
    /// Connections break, messages are late, and sites are cut off from each other.
    Network,
    /// As `Network`. Processes of members also die, are paused, and come back.
    Processes,
    /// As `Processes`. The master also dies and comes back.
    Masters,
    /// As `Masters`, with two masters. A lease decides which of them leads.
    Leaders,
    /// As `Masters`, with up to 50 nodes and 1,000 keys. Masters die again and again while nodes report, and reports
    /// take longer than every timer.
    Recovery,
    /// As `Masters`, with few keys. Nodes fall behind, one leader follows another before they are back, and the same keys
    /// are replaced and removed meanwhile.
    Failovers,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] = [
        Kind::Calm,
        Kind::Network,
        Kind::Processes,
        Kind::Masters,
        Kind::Leaders,
        Kind::Recovery,
        Kind::Failovers,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Network => "network",
            Self::Processes => "processes",
            Self::Masters => "masters",
            Self::Leaders => "leaders",
            Self::Recovery => "recovery",
            Self::Failovers => "failovers",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

fn one_of<T: Copy>(chance: &mut Chance, of: &[T]) -> T {
    of[chance.below(of.len() as u64) as usize]
}

/// Half of the runs leave a fault out, since it may keep runs from states in which others matter.
fn maybe(chance: &mut Chance, one_in: &[u64]) -> u64 {
    if chance.below(2) == 0 { 0 } else { one_of(chance, one_in) }
}

impl Scenario {
    /// The scenario of this seed, kind and number of events.
    #[must_use]
    pub fn new(seed: u64, kind: Kind, events: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x5ce_0a10);
        let chance = &mut chance;
        let is_large = chance.below(4) == 0;
        let most_len = if is_large { 300_000 } else { one_of(chance, &[60, 300, 900]) };
        let room = one_of(chance, &[2, 4, 8, 30]);
        let latency_us = one_of(chance, &[50, 500, 3_000]);
        // Shorter than some late writers take. Their ranges may then be granted again, and must be safe all the same.
        let put_discard_ms = one_of(chance, &[20, 100, 400, 3_000]).max(latency_us / 15);
        let has_deaths = !matches!(kind, Kind::Calm | Kind::Network);
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
            has_fabric: false,
            has_groups: chance.below(2) == 0,
            has_quotas: Chance::new(seed ^ 0x7e4a_4175).below(3) == 0,
            has_soft_pins: chance.below(2) == 0,
            evicts_soft_pinned: chance.below(4) > 0,
            watermark: one_of(chance, &[1.0, 0.9]),
            replicates: chance.below(2) == 0,
            drain_in: maybe(chance, &[40, 150]),
            // A segment that outlives its process is lent for as long as the process lives.
            leave_in: maybe(chance, &[15, 60]) * u64::from(!has_named),
            leadership_ms: one_of(chance, &[50, 150, 500]),
            routes_last_ms: one_of(chance, &[100, 300, 1_000]),
            suspension_ms: one_of(chance, &[300, 1_000]),
            has_rivals: false,
            rests_long: false,
            longest_away_ms: 1_500,
            most_overruled: (limits::MAX_OVERRULED_KEYS, limits::MAX_FILTERED_KEYS),
        };
        let scenario = scenario.with_disks(&mut Chance::new(seed ^ 0xd15c_d15c));
        let scenario = scenario.shaped(kind, (is_plain, tightness, has_rivals), &mut apart);
        let scenario = scenario.with_losses(kind, &mut Chance::new(seed ^ 0x1055_0f17));
        scenario.with_fabric(kind, &mut Chance::new(seed ^ 0xfab_51de))
    }

    fn shaped(
        self,
        kind: Kind,
        (is_plain, tightness, has_rivals): (bool, u64, bool),
        apart: &mut Chance,
    ) -> Self {
        let scenario = self;
        match (is_plain, tightness) {
            _ if kind == Kind::Recovery => scenario.without_extras().wide(apart),
            _ if kind == Kind::Failovers => scenario.without_extras().with_successors(apart),
            _ if has_rivals => scenario.without_extras().with_rivals(apart),
            (false, _) => scenario,
            (true, 0) => scenario.without_extras(),
            (true, 1) => scenario.without_extras().crowded(kind),
            (true, _) => scenario.without_extras().read_mostly(),
        }
    }

    /// In half of the runs in which processes die, and in all with successors, nodes lose bytes, or the record has room for
    /// few overruled keys.
    fn with_losses(self, kind: Kind, apart: &mut Chance) -> Self {
        let is_without = apart.below(2) > 0 && kind != Kind::Failovers;
        if self.has_rivals || matches!(kind, Kind::Calm | Kind::Network) || is_without {
            return self;
        }
        let most_overruled = one_of(apart, &[self.most_overruled, (1, 3), (4, 40), (0, 1_000)]);
        let loss_in = maybe(apart, &[40, 200]);
        Self { most_overruled, faults: Faults { loss_in, ..self.faults }, ..self }
    }

    /// Half of the runs with extras have disks.
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

    /// Half of the runs have one-sided transfers. Where anything fails, some of their requests land late.
    fn with_fabric(self, kind: Kind, apart: &mut Chance) -> Self {
        let has_fabric = apart.below(2) == 0;
        let late_request_in = if kind == Kind::Calm { 0 } else { one_of(apart, &[3, 10, 50]) };
        Self { has_fabric, faults: Faults { late_request_in, ..self.faults }, ..self }
    }

    /// Half of the runs have only puts, gets and removals. Extras make the states rarer in which those can go wrong.
    fn without_extras(self) -> Self {
        Self {
            has_groups: false,
            has_quotas: false,
            has_soft_pins: false,
            watermark: 1.0,
            replicates: false,
            drain_in: 0,
            leave_in: 0,
            disk_len: 0,
            ..self
        }
    }

    /// There is hardly any room, so ranges are granted again while their earlier writers are still at work.
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

    /// Many clients read the same few keys through cached routes, while others replace them.
    fn read_mostly(self) -> Self {
        let lease_ms = self.lease_ms.max(100);
        Self { pure_clients: 3, keys: 2, lease_ms, reads_mostly: true, ..self }
    }

    /// A pool with many nodes and keys, and room for most of them. Its masters die while nodes report, and each third
    /// message of a report may take as long as a client's time to live.
    fn wide(self, apart: &mut Chance) -> Self {
        let (nodes, keys) = one_of(apart, &[(5, 60), (12, 300), (50, 1_000)]);
        let most_len = one_of(apart, &[60, 300]);
        let faults = Faults {
            straggler_in: one_of(apart, &[3, 10]),
            partition_in: maybe(apart, &[200]),
            node_death_in: maybe(apart, &[150, 400]),
            pause_in: maybe(apart, &[100, 300]),
            master_death_in: one_of(apart, &[60, 200, 600]),
            ..Faults::default()
        };
        Self {
            events: self.events * nodes as u64 / 4,
            nodes,
            keys,
            pure_clients: 3,
            most_len,
            segment_len: one_of(apart, &[20, 60]) * most_len,
            // The record is written once for each of 50 mounts.
            client_ttl_ms: 2_000,
            latency_us: 3_000,
            put_discard_ms: 3_000,
            put_release_ms: 3_000,
            stripe_threshold: 0,
            has_neighbours: false,
            faults,
            ..self
        }
    }

    /// A few nodes that are away for some time, in most runs seldom for so long that they are given up, and masters that die
    /// meanwhile.
    /// Most operations change one of the same few keys.
    fn with_successors(self, apart: &mut Chance) -> Self {
        let faults = Faults {
            reset_in: maybe(apart, &[60]),
            straggler_in: maybe(apart, &[20]),
            partition_in: one_of(apart, &[30, 80]),
            node_death_in: maybe(apart, &[200, 400]),
            pause_in: maybe(apart, &[60, 150]),
            master_death_in: one_of(apart, &[50, 100, 200]),
            ..Faults::default()
        };
        Self {
            events: 5 * self.events,
            nodes: one_of(apart, &[2, 3, 3, 4]),
            keys: one_of(apart, &[2, 3, 5]),
            pure_clients: 2,
            client_ttl_ms: one_of(apart, &[600, 2_000, 4_000]),
            lease_ms: one_of(apart, &[20, 100]),
            routes_last_ms: 100,
            latency_us: 500,
            put_discard_ms: 100,
            put_release_ms: 100,
            stripe_threshold: 0,
            rests_long: true,
            faults,
            ..self
        }
    }

    /// Two masters with followers. A leader that lost the coordinator keeps some nodes and readers, while the others
    /// have found the next leader. Leases decide what either may do, so the run must outlast them: it has more events,
    /// short delays and long rests. No process dies.
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
            rests_long: true,
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
        if !matches!(kind, Kind::Processes) {
            faults.master_death_in = one_of(chance, &[60, 150, 300]);
        }
        if kind == Kind::Leaders {
            faults.away_every_ms = 1_000;
        }
        faults
    }
}
