//! What the members of a new leader's record may say to it, byte by byte: mounts, inventories, changes and losses that
//! no sound node would send, in any order, while the record takes its time.

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers, written_hash};
use mooncake_types::{
    ChangesPage, ClientId, EntryState, Epoch, InventoryEntry, InventoryPage, Medium, MountSegment,
    OverruledKey, OverruledKeys, PutItem, PutMode, PutStart, RangeDrop, ReplicateConfig, Request,
    Scan, ScanAction, SegmentId, Tick, Version,
};

/// The epoch of the leader.
const EPOCH: u64 = 5;
const KIB: u64 = 1 << 10;
const LEN: u64 = 64 * KIB;
const KEYS: [&str; 5] = ["a", "b", "c", "", "a much longer key"];
const MEMBERS: u128 = 4;

/// Choices that follow from bytes; the first ones, once there are no bytes left.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, end: u64) -> u64 {
        u64::from(self.byte()) % end
    }

    fn bytes(&mut self, len: u64) -> &'a [u8] {
        let (some, rest) = self.0.split_at(self.0.len().min(len as usize));
        self.0 = rest;
        some
    }

    fn version(&mut self) -> Version {
        // Seldom of this leader or a later one.
        Version { epoch: Epoch(self.below(EPOCH + 3)), counter: self.below(16) }
    }

    fn segment(&mut self) -> SegmentId {
        SegmentId(u128::from(self.below(MEMBERS as u64 + 1)))
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.below(KEYS.len() as u64) as usize]
    }

    /// An entry that begins a little after `end`, or anywhere.
    fn entry(&mut self, end: &mut u64) -> InventoryEntry<'a> {
        let offset = match self.below(8) {
            0 => u64::MAX - self.below(9),
            1 => self.below(64) * KIB,
            _ => end.saturating_add(self.below(2) * KIB),
        };
        let len = [KIB, 2 * KIB, 0, 1, u64::MAX][self.below(16).saturating_sub(11) as usize];
        *end = offset.saturating_add(len);
        let version = self.version();
        let grant = if self.below(4) > 0 { version } else { self.version() };
        let (object_len, object_offset) = match self.below(4) {
            0 => (2 * KIB, self.below(3) * KIB),
            1 => (u64::from(self.byte()) << self.below(64), u64::from(self.byte())),
            _ => (len, 0),
        };
        let state = if self.below(4) > 0 { EntryState::Complete } else { EntryState::Writing };
        let attributes = match self.below(4) {
            0 => self.bytes(12),
            _ => &[],
        };
        let key = self.key();
        InventoryEntry {
            offset,
            len,
            key,
            version,
            grant,
            object_len,
            object_offset,
            state,
            attributes,
        }
    }

    fn entries(&mut self) -> Vec<InventoryEntry<'a>> {
        let mut end = self.below(4) * KIB;
        (0..self.below(6)).map(|_| self.entry(&mut end)).collect()
    }

    fn record(&mut self) -> RecordedMembers {
        let mut member = |number| Member {
            segment: SegmentId(number),
            behind: [None, Some(Version::default()), Some(self.version())][self.below(3) as usize],
            is_disk: self.below(4) == 0,
        };
        let members = (0..MEMBERS).map(&mut member).collect();
        let mut overruled = OverruledKeys::with_most_single(2);
        for _ in 0..self.below(4) {
            let (until, at) = (self.version(), self.version());
            overruled.add(written_hash(self.key()), OverruledKey { until, at });
        }
        RecordedMembers { fresh: self.below(8) == 0, members, overruled }
    }

    fn mount(&mut self) -> MountSegment<'static> {
        MountSegment {
            id: self.segment(),
            name: ["node-1:1", "node-2:1", ""][self.below(9) as usize % 3],
            endpoint: "node-1:1",
            len: if self.below(16) > 0 { LEN } else { u64::from(self.byte()) },
            seen_epoch: Epoch(if self.below(8) > 0 { EPOCH } else { self.below(20) }),
            is_empty: self.below(4) == 0,
            run: self.below(3),
            medium: if self.below(4) > 0 { Medium::Memory } else { Medium::Disk },
            domains: &[],
            seal_key: None,
        }
    }

    fn losses(&mut self) -> Request<'static> {
        let count = self.below(3);
        let keys = (0..count).map(|_| self.key()).collect();
        let mut lost = |_| RangeDrop {
            segment: self.segment(),
            offset: self.below(64) * KIB,
            version: self.version(),
            grant: self.version(),
        };
        Request::ReportLosses { keys, ranges: (0..count).map(&mut lost).collect() }
    }

    /// What a client asks for meanwhile.
    fn call(&mut self) -> Request<'static> {
        let keys = vec![self.key()];
        match self.below(5) {
            0 => Request::GetReplicaList { keys },
            1 => Request::Remove { keys, force: true },
            2 => {
                let puts = vec![PutItem::new(keys[0], KIB)];
                let (config, mode) = (ReplicateConfig::default(), PutMode::Upsert);
                Request::PutStart(PutStart { puts, config, mode })
            }
            3 => Request::FetchDrops { dropped: Vec::new(), limit: 100 },
            _ => {
                let (pattern, action) = (Some("a"), ScanAction::Remove { force: true });
                Request::Scan(Scan { tenant: None, pattern, action, cursor: 0, limit: 9 })
            }
        }
    }
}

/// A new leader, and the changes of its record that are not durable yet.
struct Leader {
    meta: Meta,
    now: Tick,
    writes: Vec<Effect>,
}

impl Leader {
    fn ask(&mut self, from: ClientId, request: &Request<'_>) {
        if let Request::MountSegment(mount) = request {
            // The shell writes these first.
            for effect in self.meta.effects_before(mount) {
                self.meta.handle_recorded(self.now, effect);
            }
        }
        self.meta.handle(self.now, from, request);
    }

    /// The oldest changes of the record become durable.
    fn write(&mut self, count: u64) {
        self.writes.extend(self.meta.take_effects());
        let count = self.writes.len().min(count as usize);
        for effect in self.writes.drain(..count) {
            self.meta.handle_recorded(self.now, effect);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now.after_ms(ms);
        while self.meta.poll_timeout().is_some_and(|due| due <= self.now) {
            self.meta.handle_timeout(self.now);
        }
    }
}

/// Lets members say what follows from these bytes.
///
/// # Panics
/// If that breaks an invariant of the leader.
pub(crate) fn survive(bytes: &[u8]) {
    let mut script = Script(bytes);
    let now = Tick(1_000);
    let meta = Meta::recover(Config::default(), Epoch(EPOCH), now, &script.record());
    let mut leader = Leader { meta, now, writes: Vec::new() };
    while !script.0.is_empty() {
        let from = ClientId(1 + u128::from(script.below(3)));
        let (page, last) = (script.below(8).saturating_sub(5) as u32, script.below(2) == 0);
        let request = match script.below(10) {
            0 => {
                leader.write(script.below(9));
                continue;
            }
            1 => {
                leader.pass(u64::from(script.byte()) << script.below(8));
                continue;
            }
            2 | 3 => Request::MountSegment(script.mount()),
            4..=6 => {
                let (segment, run, entries) = (script.segment(), script.below(3), script.entries());
                Request::ReportInventory(InventoryPage { segment, run, page, last, entries })
            }
            7 => {
                let (segment, entries) = (script.segment(), script.entries());
                let gone = (0..script.below(3)).map(|_| script.below(64) * KIB).collect();
                Request::ReportChanges(ChangesPage { segment, page, last, entries, gone })
            }
            8 => script.losses(),
            _ => script.call(),
        };
        leader.ask(from, &request);
        if let Err(violation) = leader.meta.check() {
            panic!("{violation}, after {request:?}");
        }
    }
}
