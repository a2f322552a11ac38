//! Random actions, drawn from a seed.

use mooncake_types::{SegmentId, Tenant};

pub(crate) const KIB: u64 = 1024;
pub(crate) const KEYS: u64 = 14;
/// The first key of another tenant than the default one.
const FIRST_OF_TENANT: u64 = 10;
const CLIENTS: u128 = 3;
const SEGMENTS: u128 = 5;
/// The lengths of segments in KiB.
pub(crate) const LENS: [u64; 3] = [64, 200, 512];

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

/// The start of a put or an upsert.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) client: u128,
    pub(crate) key: u64,
    pub(crate) len: u64,
    pub(crate) replicas: u32,
    pub(crate) pin: u64,
    pub(crate) exclude: Option<u128>,
    pub(crate) upsert: bool,
    /// The group of the key: mostly none, sometimes the group of another key.
    pub(crate) group: &'static str,
}

/// `nth` selects one of the existing items, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Advance {
        ms: u64,
    },
    Ping {
        client: u128,
    },
    /// The connection of a client's last ping ends.
    Disconnect {
        client: u128,
    },
    /// A client reports that it cannot reach these segments.
    Report {
        client: u128,
        id: u128,
    },
    Mount {
        client: u128,
        id: u128,
        len: u64,
    },
    Unmount {
        client: u128,
        id: u128,
        grace_ms: u64,
    },
    Start(Start),
    /// Ends a running put; sometimes another client tries to.
    End {
        nth: u64,
        failed: u32,
        stranger: bool,
    },
    Revoke {
        nth: u64,
    },
    Get {
        key: u64,
    },
    Exist {
        key: u64,
    },
    Remove {
        key: u64,
        force: bool,
    },
    RemoveAll {
        force: bool,
    },
    /// Clears the key's replicas on the nth segment, or on all.
    Clear {
        client: u128,
        key: u64,
        nth: Option<u64>,
    },
    /// From the nth segment to some of the segments after it.
    CreateTask {
        key: u64,
        moves: bool,
        nth: u64,
        targets: usize,
    },
    FetchTasks {
        client: u128,
    },
    EndTask {
        nth: u64,
        ok: bool,
        stranger: bool,
    },
    /// Drains the nth segment, to the segments after it or to any.
    Drain {
        nth: u64,
        targets: usize,
    },
    CancelDrain,
}

pub(crate) fn draw(dice: &mut Dice) -> Action {
    let client = 1 + u128::from(dice.roll(CLIENTS as u64));
    let id = 1 + u128::from(dice.roll(SEGMENTS as u64));
    let key = dice.roll(KEYS);
    match dice.roll(138) {
        0..12 => Action::Advance { ms: [1, 10, 500, 3_000, 9_000, 40_000][dice.roll(6) as usize] },
        12..18 => Action::Ping { client },
        128..131 => Action::Disconnect { client },
        131..134 => Action::Report { client, id },
        134..137 => {
            Action::Drain { nth: dice.roll(1000), targets: if dice.roll(3) == 0 { 2 } else { 0 } }
        }
        137 => Action::CancelDrain,
        18..23 => Action::Mount { client, id, len: LENS[dice.roll(3) as usize] * KIB },
        23..25 => Action::Unmount { client, id, grace_ms: dice.roll(2) * 5_000 },
        25..59 => Action::Start(draw_start(dice, client, key, id)),
        59..80 => Action::End {
            nth: dice.roll(1000),
            failed: if dice.roll(6) == 0 { dice.roll(8) as u32 } else { 0 },
            stranger: dice.roll(15) == 0,
        },
        80..83 => Action::Revoke { nth: dice.roll(1000) },
        83..91 => Action::Get { key },
        91..97 => Action::Exist { key },
        97..102 => Action::Remove { key, force: dice.roll(3) == 0 },
        102 => Action::RemoveAll { force: dice.roll(4) == 0 },
        103..106 => {
            Action::Clear { client, key, nth: (dice.roll(2) == 0).then(|| dice.roll(1000)) }
        }
        106..113 => Action::CreateTask {
            key,
            moves: dice.roll(2) == 0,
            nth: dice.roll(1000),
            targets: dice.roll(4) as usize,
        },
        113..120 => Action::FetchTasks { client },
        _ => Action::EndTask {
            nth: dice.roll(1000),
            ok: dice.roll(4) > 0,
            stranger: dice.roll(10) == 0,
        },
    }
}

fn draw_start(dice: &mut Dice, client: u128, key: u64, id: u128) -> Start {
    let own_group = ["g", "h", "", "", ""][key as usize % 5];
    Start {
        client,
        key,
        len: match dice.roll(12) {
            0..8 => 1 + dice.roll(60 * KIB),
            8..11 => 60 * KIB + dice.roll(300 * KIB),
            _ => 400 * KIB + dice.roll(1024 * KIB),
        },
        replicas: 1 + dice.roll(3) as u32,
        pin: dice.roll(10),
        exclude: (dice.roll(8) == 0).then_some(id),
        upsert: dice.roll(3) == 0,
        group: match (dice.roll(12), key < FIRST_OF_TENANT) {
            (0, _) => "",
            (1, true) => "h",
            // The model knows groups by their names, and groups of tenants are apart.
            (1, false) => "of blue",
            (_, false) if !own_group.is_empty() => "of blue",
            _ => own_group,
        },
    }
}

/// The segments of this number; each length has its own id.
pub(crate) fn segments_of(id: u128) -> [SegmentId; 3] {
    LENS.map(|len| SegmentId(segment(id, len * KIB)))
}

pub(crate) fn segment(id: u128, len: u64) -> u128 {
    id * 1_000_000 + u128::from(len)
}

/// The last keys are those of another tenant.
pub(crate) fn name(key: u64) -> String {
    let tenant = if key < FIRST_OF_TENANT { Tenant::default() } else { other_tenant() };
    tenant.key(&format!("key-{key}")).into_owned()
}

pub(crate) fn other_tenant() -> Tenant {
    Tenant::named("blue").expect("a name")
}
