//! Random actions, drawn from a seed.

pub(crate) const NODES: usize = 4;
pub(crate) const KEYS: u64 = 8;
const KIB: u64 = 1024;

/// SplitMix64.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// `nth` selects one of the existing items, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Advance {
        ms: u64,
    },
    /// A node pings. Then it mounts, reports a page or drops entries, as the master asks.
    Beat {
        node: usize,
    },
    /// Cuts a node off from the master, from the clients, or from both.
    Cut {
        node: usize,
        from_master: bool,
        from_clients: bool,
    },
    Mend {
        node: usize,
    },
    /// The process of a node dies, and another one starts.
    Lose {
        node: usize,
    },
    Start {
        key: u64,
        len: u64,
        replicas: u32,
        upsert: bool,
        hard: bool,
    },
    /// Begins a range of a put, or completes it.
    Write {
        nth: u64,
        place: u64,
    },
    /// Writes the remaining ranges of a put, and asks the master to end it.
    End {
        nth: u64,
    },
    /// The client of a put dies.
    Abandon {
        nth: u64,
    },
    Revoke {
        nth: u64,
    },
    Get {
        key: u64,
    },
    /// Reads through a cached route.
    Read {
        nth: u64,
    },
    Remove {
        key: u64,
        force: bool,
    },
    /// Repeats a call that was not answered.
    Retry {
        nth: u64,
    },
    /// Writes the next changes to the membership record.
    RecordedMembers {
        count: u64,
    },
    /// The master dies, and another takes over. If `calm`, all nodes report to it at once.
    Die {
        calm: bool,
    },
}

pub(crate) fn draw(dice: &mut Dice) -> Action {
    let node = dice.roll(NODES as u64) as usize;
    let key = dice.roll(KEYS);
    let nth = dice.roll(1000);
    match dice.roll(200) {
        0..16 => {
            Action::Advance { ms: [1, 20, 400, 1_500, 4_000, 9_000, 40_000][dice.roll(7) as usize] }
        }
        16..60 => Action::Beat { node },
        60..64 => {
            Action::Cut { node, from_master: dice.roll(3) > 0, from_clients: dice.roll(3) > 0 }
        }
        64..69 => Action::Mend { node },
        69 => Action::Lose { node },
        70..96 => Action::Start {
            key,
            len: match dice.roll(6) {
                0 => 130 * KIB + dice.roll(200 * KIB),
                _ => 1 + dice.roll(60 * KIB),
            },
            replicas: 1 + dice.roll(2) as u32,
            upsert: dice.roll(2) == 0,
            hard: dice.roll(12) == 0,
        },
        96..106 => Action::Write { nth, place: dice.roll(1000) },
        106..126 => Action::End { nth },
        126..128 => Action::Abandon { nth },
        128..130 => Action::Revoke { nth },
        130..146 => Action::Get { key },
        146..156 => Action::Read { nth },
        156..162 => Action::Remove { key, force: dice.roll(2) == 0 },
        162..178 => Action::Retry { nth },
        178..196 => Action::RecordedMembers { count: 1 + dice.roll(3) },
        _ => Action::Die { calm: dice.roll(2) == 0 },
    }
}
