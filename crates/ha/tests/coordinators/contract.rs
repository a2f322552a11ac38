use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mooncake_ha::{
    CampaignOutcome, Change, Coordinator, CoordinatorError, Ended, LeaderView, Leadership, Record,
    boot_time,
};
use mooncake_types::{Epoch, SegmentId, Version};

use crate::candidate::Process;
use crate::wait::wait_for;
use crate::world::{CLUSTER, Keeper, TTL, World, candidate, ended, follow, lead};

/// Since when segments are behind in these tests.
const SINCE: Version = Version { epoch: Epoch(6), counter: 7 };

/// Makes a test of each promise for this kind of [`World`](crate::world::World).
#[macro_export]
macro_rules! contract {
    ($world:expr) => {
        $crate::contract!($world;
            a_candidate_leads_and_is_seen,
            only_one_of_racing_candidates_leads_at_a_time,
            a_leader_that_is_gone_is_followed_when_its_lease_is_over,
            a_leader_that_resigns_is_followed_at_once,
            a_leader_that_renews_stays,
            a_resignation_that_comes_late_takes_nothing_away,
            a_deposed_leader_writes_nothing,
            a_lease_that_is_over_is_taken_up_again_if_nobody_has_led,
            a_lease_that_is_over_is_not_taken_up_again_if_another_has_led,
            epochs_grow_with_every_leadership,
            watchers_see_leaders_come_and_go,
            a_campaign_ends_early_when_the_leader_changes,
            the_record_survives_its_leaders,
            renewals_and_writes_do_not_hinder_each_other,
            a_record_that_is_garbage_is_an_error_and_stays,
            a_leader_that_is_garbage_is_an_error_and_stays,
            clusters_in_one_place_do_not_meet,
        );
    };
    ($world:expr; $($promise:ident,)*) => {
        $(#[test]
        fn $promise() {
            $crate::contract::$promise(&$world);
        })*
    };
}

/// Makes a test of each promise that needs several processes.
#[macro_export]
macro_rules! contract_of_processes {
    ($world:expr) => {
        $crate::contract!($world;
            a_leader_that_was_killed_is_followed,
            a_leader_that_was_stopped_is_deposed_when_it_wakes,
        );
    };
}

fn segments(record: &Record) -> Vec<(u128, bool)> {
    record.members().map(|member| (member.segment.0, member.behind.is_some())).collect()
}

fn is_deposed<T>(result: &Result<T, CoordinatorError>) -> bool {
    matches!(result, Err(CoordinatorError::Deposed { .. }))
}

fn join(id: u128) -> Change {
    Change::Join(SegmentId(id))
}

pub(crate) fn a_candidate_leads_and_is_seen(world: &dyn World) {
    let coordinator = world.connect();
    assert_eq!(coordinator.leader(), Ok(None));
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis();
    let asked_at = boot_time::now();
    let leadership = lead(&coordinator, "a", Duration::ZERO);

    assert!(u128::from(leadership.epoch().0) >= clock, "{}", leadership.epoch());
    assert!(leadership.is_valid());
    assert!(leadership.valid_until() <= boot_time::now() + TTL * 9 / 10);
    assert!(leadership.valid_until() >= asked_at + TTL * 9 / 10);
    let record = leadership.record();
    assert_eq!((record.is_fresh(), record.epoch()), (true, leadership.epoch()));
    assert_eq!(segments(&record), []);

    let view = LeaderView { address: "a:50051".to_owned(), epoch: leadership.epoch() };
    assert_eq!(world.connect().leader(), Ok(Some(view.clone())));
    match world.connect().campaign(&candidate("b"), Duration::ZERO) {
        Ok(CampaignOutcome::Follows(seen)) => assert_eq!(seen, Some(view)),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn only_one_of_racing_candidates_leads_at_a_time(world: &dyn World) {
    const CANDIDATES: u64 = 4;
    const TERMS: u64 = 3;
    let leading = AtomicU64::new(0);
    let highest = AtomicU64::new(0);
    let race = |name: u64| {
        let coordinator = world.connect();
        for _ in 0..TERMS {
            let leadership = follow(&coordinator, &name.to_string(), Duration::from_secs(60));
            let others = leading.fetch_add(1, Ordering::SeqCst);
            let before = highest.swap(leadership.epoch().0, Ordering::SeqCst);
            leadership.apply(&[join(u128::from(leadership.epoch().0))]).expect("it leads");
            assert!(leadership.is_valid(), "the test was too slow to tell");
            leading.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(others, 0, "another led as well");
            assert!(before < leadership.epoch().0, "{before} came before {}", leadership.epoch());
            leadership.resign().expect("it leads");
        }
    };
    thread::scope(|scope| {
        for name in 0..CANDIDATES {
            scope.spawn(move || race(name));
        }
    });
    let last = lead(&world.connect(), "last", Duration::ZERO);
    assert_eq!(last.record().members().len() as u64, CANDIDATES * TERMS);
}

pub(crate) fn a_leader_that_is_gone_is_followed_when_its_lease_is_over(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    let (epoch, valid_until) = (first.epoch(), first.valid_until());
    let coordinator = world.connect();
    match coordinator.campaign(&candidate("b"), Duration::ZERO) {
        Ok(CampaignOutcome::Follows(Some(seen))) => assert_eq!(seen.epoch, epoch),
        other => panic!("{other:?}"),
    }
    let second = follow(&coordinator, "b", TTL + world.slack());
    assert!(boot_time::now() >= valid_until, "both led");
    assert!(second.epoch() > epoch);
    assert!(!first.is_valid());
    assert_eq!(second.former_lease(), Duration::ZERO);
}

pub(crate) fn a_leader_that_resigns_is_followed_at_once(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    first.resign().expect("it leads");
    assert!(!first.is_valid());
    assert!(is_deposed(&first.renew()) && is_deposed(&first.apply(&[join(1)])));
    let second = lead(&world.connect(), "b", Duration::ZERO);
    assert!(second.epoch() > first.epoch());
    // With a coordinator that waits out a dead leader's lease, readers relied on the first leader's lease too.
    let left = second.lease_end().map_or(Duration::ZERO, |_| TTL);
    assert_eq!(second.former_lease(), left);
    assert_eq!(first.resign(), Ok(()));
    assert!(second.renew().is_ok(), "the first took the second's place away");
}

pub(crate) fn a_leader_that_renews_stays(world: &dyn World) {
    let leadership = lead(&world.connect(), "a", Duration::ZERO);
    let keeper = Keeper::of(&leadership);
    let within = TTL * 3 + world.slack();
    match world.connect().campaign(&candidate("b"), within) {
        Ok(CampaignOutcome::Follows(Some(seen))) => assert_eq!(seen.epoch, leadership.epoch()),
        other => panic!("{other:?}"),
    }
    assert!(leadership.is_valid());
    assert_eq!(keeper.stop(), Ended::Stopped);
}

pub(crate) fn a_resignation_that_comes_late_takes_nothing_away(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    let second = follow(&world.connect(), "b", TTL + world.slack());
    second.apply(&[join(1)]).expect("it leads");
    // The first leader does not know yet that it was deposed; its resignation may succeed or fail.
    let _ = first.resign();
    second.renew().expect("its place was taken away");
    let seen = world.connect().leader().expect("an answer");
    assert_eq!(seen.map(|view| view.epoch), Some(second.epoch()));
}

pub(crate) fn a_deposed_leader_writes_nothing(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    first.apply(&[join(1)]).expect("it leads");
    let second = follow(&world.connect(), "b", TTL + world.slack());
    assert_eq!(segments(&second.record()), [(1, false)]);

    let refused = first.apply(&[join(2), Change::Strike(SegmentId(1))]);
    assert!(is_deposed(&refused), "{refused:?}");
    assert_eq!(segments(&first.record()), [(1, false)]);
    let refused = first.renew();
    assert!(is_deposed(&refused), "{refused:?}");
    assert!(!first.is_valid());
    assert_eq!(ended(&first), Ended::Deposed);

    second.renew().expect("it leads");
    second.apply(&[join(3)]).expect("it leads");
    second.resign().expect("it leads");
    let third = lead(&world.connect(), "c", Duration::ZERO);
    assert_eq!(segments(&third.record()), [(1, false), (3, false)]);
}

/// Waits until the coordinator reports that no candidate leads.
fn wait_until_over(world: &dyn World, coordinator: &Coordinator) {
    wait_for("the end of the lease", TTL + world.slack(), || {
        (coordinator.leader() == Ok(None)).then_some(())
    });
}

pub(crate) fn a_lease_that_is_over_is_taken_up_again_if_nobody_has_led(world: &dyn World) {
    let coordinator = world.connect();
    let leadership = lead(&coordinator, "a", Duration::ZERO);
    leadership.apply(&[join(1)]).expect("it leads");
    for id in [2, 3] {
        wait_until_over(world, &coordinator);
        assert!(!leadership.is_valid());
        let asked_at = boot_time::now();
        assert!(leadership.renew().expect("nobody else led") >= asked_at + TTL * 9 / 10);
        assert!(leadership.is_valid());
        match world.connect().campaign(&candidate("b"), Duration::ZERO) {
            Ok(CampaignOutcome::Follows(Some(seen))) => assert_eq!(seen.epoch, leadership.epoch()),
            other => panic!("{other:?}"),
        }
        leadership.renew().expect("it leads");
        leadership.apply(&[join(id)]).expect("it leads");
    }
    leadership.resign().expect("it leads");
    let next = lead(&world.connect(), "b", Duration::ZERO);
    assert_eq!(segments(&next.record()), [(1, false), (2, false), (3, false)]);
    assert!(next.epoch() > leadership.epoch());
}

pub(crate) fn a_lease_that_is_over_is_not_taken_up_again_if_another_has_led(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    let second = follow(&world.connect(), "b", TTL + world.slack());
    second.resign().expect("it leads");
    let refused = first.renew();
    assert!(is_deposed(&refused), "{refused:?}");
    assert_eq!(world.connect().leader(), Ok(None));
}

pub(crate) fn epochs_grow_with_every_leadership(world: &dyn World) {
    let coordinator = world.connect();
    let mut last = Epoch(0);
    for round in 0..4 {
        let leadership = lead(&coordinator, "a", Duration::ZERO);
        assert!(leadership.epoch() > last, "{} after {last}", leadership.epoch());
        assert_eq!(leadership.record().is_fresh(), round == 0);
        last = Epoch(leadership.epoch().0 + 1_000_000);
        leadership.apply(&[Change::RaiseEpoch(last)]).expect("it leads");
        assert_eq!(leadership.record().epoch(), last);
        leadership.renew().expect("it leads, whatever epoch it saw");
        leadership.resign().expect("it leads");
    }
}

pub(crate) fn watchers_see_leaders_come_and_go(world: &dyn World) {
    let within = Duration::from_secs(10);
    let coordinator = world.connect();
    assert_eq!(coordinator.watch(None, Duration::from_millis(30)), Ok(None));
    thread::scope(|scope| {
        let watcher = scope.spawn(|| world.connect().watch(None, within));
        let leadership = lead(&coordinator, "a", Duration::ZERO);
        let seen = watcher.join().expect("no panic").expect("an answer");
        let view = LeaderView { address: "a:50051".to_owned(), epoch: leadership.epoch() };
        assert_eq!(seen, Some(view.clone()));

        let unchanged = coordinator.watch(Some(&view), Duration::from_millis(30));
        assert_eq!(unchanged, Ok(Some(view.clone())));
        let known = view.clone();
        let watcher = scope.spawn(move || world.connect().watch(Some(&known), within));
        leadership.resign().expect("it leads");
        assert_eq!(watcher.join().expect("no panic"), Ok(None));
    });
}

pub(crate) fn a_campaign_ends_early_when_the_leader_changes(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    let keeper = Keeper::of(&first);
    let coordinator = world.connect();
    let campaigner = thread::spawn(move || {
        let began = Instant::now();
        let ended = coordinator.campaign(&candidate("b"), Duration::from_secs(60));
        (ended, began.elapsed())
    });
    first.resign().expect("it leads");
    let (ended, took) = campaigner.join().expect("no panic");
    assert!(matches!(ended, Ok(CampaignOutcome::Leads(_))), "{ended:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(keeper.finish(), Ended::Deposed);
}

pub(crate) fn the_record_survives_its_leaders(world: &dyn World) {
    const MEMBERS: u128 = 300;
    let coordinator = world.connect();
    let first = lead(&coordinator, "a", Duration::ZERO);
    first.apply(&(1..=MEMBERS).map(join).collect::<Vec<_>>()).expect("it leads");
    first
        .apply(&[
            Change::Strike(SegmentId(2)),
            Change::MarkBehind(SegmentId(3), SINCE),
            Change::MarkBehind(SegmentId(4), SINCE),
        ])
        .expect("it leads");
    first.apply(&[Change::CaughtUp(SegmentId(4))]).expect("it leads");
    let expected: Vec<(u128, bool)> =
        (1..=MEMBERS).filter(|&id| id != 2).map(|id| (id, id == 3)).collect();
    assert_eq!(segments(&first.record()), expected);
    first.resign().expect("it leads");

    let second = lead(&world.connect(), "b", Duration::ZERO);
    assert_eq!(segments(&second.record()), expected);
    assert!(!second.record().is_fresh());
}

pub(crate) fn renewals_and_writes_do_not_hinder_each_other(world: &dyn World) {
    const WRITES: u128 = 20;
    let leadership = lead(&world.connect(), "a", Duration::ZERO);
    let is_done = AtomicBool::new(false);
    let deadline = Instant::now() + Duration::from_secs(60);
    thread::scope(|scope| {
        let renewer = scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) && Instant::now() < deadline {
                leadership.renew()?;
            }
            Ok::<(), CoordinatorError>(())
        });
        for id in 0..WRITES {
            leadership.apply(&[join(id)]).expect("it leads");
        }
        is_done.store(true, Ordering::Release);
        assert_eq!(renewer.join().expect("no panic"), Ok(()));
    });
    leadership.resign().expect("it leads");
    let next = lead(&world.connect(), "b", Duration::ZERO);
    assert_eq!(next.record().members().len() as u128, WRITES);
}

pub(crate) fn a_record_that_is_garbage_is_an_error_and_stays(world: &dyn World) {
    let first = lead(&world.connect(), "a", Duration::ZERO);
    first.resign().expect("it leads");
    for garbage in [&b"garbage"[..], b"", b"\xff\xfe", b"{}", &[b'x'; 100_000]] {
        world.spoil_record(garbage);
        for attempt in 0..2 {
            let refused = world.connect().campaign(&candidate("b"), Duration::ZERO);
            let is_error = matches!(refused, Err(CoordinatorError::Corrupt { .. }));
            assert!(is_error, "attempt {attempt} at {} bytes: {refused:?}", garbage.len());
        }
    }
}

pub(crate) fn a_leader_that_is_garbage_is_an_error_and_stays(world: &dyn World) {
    for garbage in [&b"10.0.0.1:50051"[..], b"", b"\xff\xfe", &[b'x'; 100_000]] {
        world.spoil_leader(garbage);
        let coordinator = world.connect();
        let seen = coordinator.leader();
        assert!(matches!(seen, Err(CoordinatorError::Corrupt { .. })), "{seen:?}");
        let refused = coordinator.campaign(&candidate("a"), Duration::ZERO);
        assert!(matches!(refused, Err(CoordinatorError::Corrupt { .. })), "{refused:?}");
    }
}

pub(crate) fn clusters_in_one_place_do_not_meet(world: &dyn World) {
    let pairs: Vec<(Coordinator, Leadership)> = [CLUSTER, "another"]
        .map(|cluster_id| {
            let coordinator = world.connect_to(cluster_id);
            let leadership = lead(&coordinator, cluster_id, Duration::ZERO);
            (coordinator, leadership)
        })
        .into();
    for (id, (_, leadership)) in pairs.iter().enumerate() {
        leadership.apply(&[join(id as u128)]).expect("it leads");
        leadership.resign().expect("it leads");
    }
    for (id, (coordinator, _)) in pairs.iter().enumerate() {
        let next = lead(coordinator, "next", Duration::ZERO);
        assert_eq!(segments(&next.record()), [(id as u128, false)]);
    }
}

pub(crate) fn a_leader_that_was_killed_is_followed(world: &dyn World) {
    let (address, options) = world.reach();
    let mut leader = Process::start("first", &address, &options);
    let epoch = leader.expect_epoch();
    leader.signal(rustix::process::Signal::KILL);
    let second = follow(&world.connect(), "b", TTL + world.slack());
    assert!(second.epoch() > epoch);
    assert_eq!(segments(&second.record()), [(7, false)]);
}

pub(crate) fn a_leader_that_was_stopped_is_deposed_when_it_wakes(world: &dyn World) {
    let (address, options) = world.reach();
    let mut leader = Process::start("first", &address, &options);
    let epoch = leader.expect_epoch();
    leader.signal(rustix::process::Signal::STOP);
    let coordinator = world.connect();
    let second = follow(&coordinator, "b", TTL + world.slack());
    assert!(second.epoch() > epoch);
    leader.signal(rustix::process::Signal::CONT);
    assert_eq!(leader.expect_line("ended"), "Deposed");
    assert_eq!(leader.expect_line("written"), "deposed");
    second.renew().expect("nobody else leads");
    assert_eq!(segments(&second.record()), [(7, false)]);
    wait_for("the view of the new leader", TTL, || {
        let seen = coordinator.leader().expect("an answer");
        seen.filter(|view| view.epoch == second.epoch())
    });
}
