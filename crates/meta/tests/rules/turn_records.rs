//! How many records one turn of the master's thread looks at, at most: while members report to a new leader, are marked
//! behind, are given up, and come back, and while lost replicas are made again.

use mooncake_meta::{Config, Member, Meta, RecordedMembers, records_touched};
use mooncake_types::{
    ClientId, InventoryEntry, InventoryPage, MountOutcome, MountSegment, ReplicateConfig, Reply,
    Request, SegmentId, Tick, Version,
};

use crate::KIB;
use crate::recovery::{EPOCH, version};
use crate::world::{ALICE, World};

const MEMBERS: u64 = 2_000;
/// Entries of each page of a report.
const ENTRIES: u64 = 32;
/// The most records of a turn that does due work. It takes 4,096 steps: to change a record costs 16 of them, and looks at
/// some others.
const MOST_DUE: u64 = 7 * 4_096;

/// A new leader, and the most records that one of its turns looked at.
struct Watched {
    world: World,
    most: u64,
}

impl Watched {
    /// Members in a record that are behind since these versions.
    fn leader(behind: impl Fn(u64) -> Option<Version>) -> Self {
        let member = |number: u64| Member {
            segment: SegmentId(number.into()),
            behind: behind(number),
            is_disk: false,
        };
        let members = (1..=MEMBERS).map(member).collect();
        let record = RecordedMembers { fresh: false, members, ..RecordedMembers::default() };
        let now = Tick(1_000);
        let meta = Meta::recover(Config::default(), EPOCH, now, &record);
        Self { world: World { meta, now }, most: 0 }
    }

    fn turn<T>(&mut self, act: impl FnOnce(&mut World) -> T) -> T {
        let before = records_touched();
        let result = act(&mut self.world);
        self.most = self.most.max(records_touched() - before);
        result
    }

    fn mount(&mut self, number: u64) -> Reply {
        let name = format!("node-{number}:12345");
        let mount = MountSegment {
            id: SegmentId(number.into()),
            name: &name,
            endpoint: &name,
            len: 256 * KIB,
            seen_epoch: EPOCH,
            is_empty: false,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        assert_eq!(self.world.meta.effects_before(&mount), []);
        let client = ClientId(number.into());
        self.turn(|world| world.ask(client, &Request::MountSegment(mount)))
    }

    /// Mounts a member, which reports objects.
    fn report(&mut self, number: u64) {
        assert_eq!(self.mount(number), Reply::Mounted(MountOutcome::WantsInventory));
        let keys: Vec<String> = (0..ENTRIES).map(|at| format!("{number}-{at}")).collect();
        let entries = keys.iter().zip(0..).map(|(key, at)| InventoryEntry {
            offset: at * KIB,
            len: KIB,
            key,
            version: version(number * ENTRIES + at + 1),
            grant: version(number * ENTRIES + at + 1),
            object_len: KIB,
            ..InventoryEntry::default()
        });
        let (segment, entries) = (SegmentId(number.into()), entries.collect());
        let page = InventoryPage { segment, run: 1, page: 0, last: true, entries };
        let client = ClientId(number.into());
        let reply = self.turn(|world| world.ask(client, &Request::ReportInventory(page)));
        assert_eq!(reply, Reply::Done(Ok(())));
    }

    /// Does what is due, and makes the changes of the record durable one by one.
    fn work(&mut self) {
        let now = self.world.now;
        while self.world.meta.poll_timeout().is_some_and(|due| due <= now) {
            self.turn(|world| world.meta.handle_timeout(now));
        }
        for effect in self.world.meta.take_effects() {
            self.turn(|world| world.meta.handle_recorded(now, effect));
        }
    }

    /// The most records of a turn since the last call.
    fn take_most(&mut self) -> u64 {
        std::mem::take(&mut self.most)
    }
}

#[test]
fn a_report_looks_at_its_own_records_however_many_members_there_are() {
    let mut leader = Watched::leader(|_| None);
    for number in 1..=MEMBERS - 200 {
        leader.report(number);
        leader.work();
    }
    let most = leader.take_most();
    assert!(most <= 64 * ENTRIES, "{most} for a page of {ENTRIES} entries");
}

#[test]
fn members_that_are_marked_and_given_up_are_looked_at_a_few_times_each() {
    let mut leader = Watched::leader(|number| (number % 2 == 0).then(|| version(number)));
    for _ in 0..80 {
        leader.world.now = leader.world.now.after_ms(500);
        leader.work();
    }
    assert_eq!(leader.world.meta.segments().len(), 0);
    let most = leader.take_most();
    assert!((MEMBERS..20 * MEMBERS).contains(&most), "{most} for {MEMBERS} members");
}

/// Each of them asks again and again until those have reported that know what it lacks.
#[test]
fn a_member_that_is_behind_asks_without_a_look_at_the_others() {
    let mut leader = Watched::leader(|number| (number > 1).then(|| version(number)));
    for number in (2..=MEMBERS).rev() {
        assert!(matches!(leader.mount(number), Reply::Done(Err(_))), "{number}");
    }
    let most = leader.take_most();
    assert!(most <= 100, "{most} of {MEMBERS} members");
    leader.report(1);
    for number in (2..=MEMBERS).rev() {
        leader.report(number);
    }
    let most = leader.take_most();
    assert!(most <= 64 * ENTRIES, "{most} for a page of {ENTRIES} entries");
}

#[test]
fn a_walk_for_lost_replicas_is_spread_over_turns() {
    const OBJECTS: u64 = 30_000;
    let mut world = World::new(Config::default());
    for id in 1..=3 {
        world.mount(ALICE, id, 2 * OBJECTS * KIB).expect("the segment is a new one");
    }
    for number in 0..OBJECTS {
        let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
        world.put_with(ALICE, &number.to_string(), 8, config).expect("there is room");
    }
    let mut leader = Watched { world, most: 0 };
    leader.world.unmount(ALICE, 3, 0).expect("it is Alice's");
    let (mut copied, mut turns) = (0, 0);
    for _ in 0..400 {
        leader.world.now = leader.world.now.after_ms(100);
        leader.world.ping(ALICE, &[SegmentId(1), SegmentId(2)]);
        let now = leader.world.now;
        while leader.world.meta.poll_timeout().is_some_and(|due| due <= now) {
            leader.turn(|world| world.meta.handle_timeout(now));
            turns += 1;
        }
        for order in leader.world.fetch_tasks(ALICE).orders {
            leader.world.end_task(ALICE, order.id, Ok(())).expect("the task runs");
            copied += 1;
        }
    }
    let most = leader.take_most();
    assert!(copied > 200 && turns > 20, "{copied} copies in {turns} turns");
    assert!(most <= MOST_DUE, "{most} in one turn, of {OBJECTS} objects");
}
