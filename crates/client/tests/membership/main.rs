//! The membership state machine of a client, driven in virtual time.

mod drops;
mod told;

use mooncake_client::membership::{Lent, Membership, MembershipStep};
use mooncake_ops::CallError;
use mooncake_types::{
    Chance, Epoch, ErrorCode, Medium, MountOutcome, Pong, Reply, Request, SegmentId, Tick,
};

fn lent(number: u128) -> Lent {
    Lent {
        id: SegmentId(number),
        name: format!("host:{number}"),
        endpoint: format!("host:{number}"),
        len: 1 << 20,
        run: 1,
        medium: Medium::Memory,
        domains: "rack=r7".parse().expect("a failure domain"),
    }
}

fn pong(need_remount: bool, epoch: u64) -> Result<Reply, CallError> {
    Ok(Reply::Pong(Pong {
        need_remount,
        epoch: Epoch(epoch),
        client_ttl_ms: 10_000,
        has_tasks: false,
        has_drops: false,
        routes_ms: 5_000,
        is_unreached: false,
    }))
}

fn mounted(outcome: MountOutcome) -> Result<Reply, CallError> {
    Ok(Reply::Mounted(outcome))
}

fn gone() -> Result<Reply, CallError> {
    Err(CallError::Unreachable { reason: "gone".to_owned() })
}

/// A client that lends segments 1 and 2 and tries two addresses.
fn membership() -> Membership {
    let mut membership = Membership::new(2, Chance::new(1));
    membership.lend(vec![lent(1), lent(2)]);
    membership
}

/// The next step of the client, as text.
fn step(membership: &mut Membership, now: u64) -> String {
    match membership.next(Tick(now)) {
        MembershipStep::Connect { address } => format!("connect {address}"),
        MembershipStep::Wait { until } => format!("wait until {}", until.0),
        MembershipStep::Call(Request::Ping { segments, unreachable, .. })
            if unreachable.is_empty() =>
        {
            format!("ping for {}", segments.len())
        }
        MembershipStep::Call(Request::Ping { segments, unreachable, .. }) => {
            format!("ping for {} that cannot reach {}", segments.len(), unreachable.len())
        }
        MembershipStep::Mount { segment, seen_epoch } => {
            format!("mount {} having seen {seen_epoch}", segment.id.0)
        }
        MembershipStep::Report { segment, run, page, from } => {
            assert_eq!(run, 1, "that of the segment");
            format!("report {} page {page} from {from}", segment.0)
        }
        MembershipStep::ReportChanges { segment, page, since } => {
            format!("tell page {page} of what changed in {} since {since}", segment.0)
        }
        MembershipStep::StartEmpty { segment } => format!("start {} empty", segment.0),
        MembershipStep::ReportLosses => "report losses".to_owned(),
        MembershipStep::Drop(ranges) => format!("drop {}", ranges.len()),
        MembershipStep::Call(Request::FetchDrops { dropped, limit: 4096 }) => {
            format!("fetch drops having dropped {}", dropped.len())
        }
        MembershipStep::Call(Request::UnmountSegment { id, grace_ms: 0, failure }) => {
            format!("unmount {} {failure}", id.0).trim_end().to_owned()
        }
        MembershipStep::Call(other) => panic!("{other:?}"),
    }
}

/// Connects at `now` and mounts both segments under `epoch`.
fn settle(membership: &mut Membership, now: u64, epoch: u64) {
    assert_eq!(step(membership, now), "connect 0");
    membership.on_connected(Tick(now), Some(Epoch(epoch)));
    assert_eq!(step(membership, now), "ping for 2");
    membership.on_reply(Tick(now), pong(true, epoch));
    mount_both(membership, now, epoch);
    assert!(membership.is_settled());
}

fn mount_both(membership: &mut Membership, now: u64, seen: u64) {
    for segment in [1, 2] {
        assert!(!membership.is_settled());
        let mount = format!("mount {segment} having seen {seen}");
        assert_eq!(step(membership, now), mount);
        membership.on_reply(Tick(now), mounted(MountOutcome::Ready));
    }
}

#[test]
fn a_client_connects_pings_mounts_and_then_pings_four_times_a_second() {
    let mut membership = membership();
    assert!(!membership.is_well());
    settle(&mut membership, 0, 5);
    for quarter in 1..9 {
        let now = quarter * 250;
        assert_eq!(step(&mut membership, now - 1), format!("wait until {now}"));
        assert_eq!(step(&mut membership, now), "ping for 2");
        // The next ping is due 250 ms after this ping was sent, not after its reply arrived.
        membership.on_reply(Tick(now + 100), pong(false, 5));
        assert!(membership.is_well() && membership.is_settled());
    }
}

#[test]
fn a_master_without_patience_is_pinged_more_often() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 1000), "ping for 2");
    let Ok(Reply::Pong(patient)) = pong(false, 5) else { unreachable!() };
    let hasty = Pong { client_ttl_ms: 300, ..patient };
    membership.on_reply(Tick(1000), Ok(Reply::Pong(hasty)));
    assert_eq!(step(&mut membership, 1000), "wait until 1100");
}

#[test]
fn segments_are_mounted_again_when_the_master_lacks_them_or_changed() {
    for (need_remount, epoch, seen) in [(true, 5, 5), (false, 6, 6), (false, 4, 5)] {
        let mut membership = membership();
        settle(&mut membership, 0, 5);
        assert_eq!(step(&mut membership, 1000), "ping for 2");
        membership.on_reply(Tick(1000), pong(need_remount, epoch));
        mount_both(&mut membership, 1000, seen);
    }
}

#[test]
fn an_epoch_that_the_node_met_elsewhere_is_reported() {
    let mut membership = membership();
    membership.see_epoch(Epoch(9));
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(2)));
    assert_eq!(step(&mut membership, 0), "ping for 2");
    membership.on_reply(Tick(0), pong(true, 2));
    mount_both(&mut membership, 0, 9);
    // The master leads under a higher epoch, so the node mounts its segments again.
    assert_eq!(step(&mut membership, 1000), "ping for 2");
    membership.on_reply(Tick(1000), pong(false, 10));
    mount_both(&mut membership, 1000, 10);
    assert_eq!(membership.seen_epoch(), Epoch(10));
}

#[test]
fn addresses_are_tried_in_turn_and_waits_grow_to_a_fifth_of_a_second() {
    let mut membership = membership();
    let mut now = 0;
    for longest in [50, 100, 200, 200, 200] {
        assert_eq!(step(&mut membership, now), "connect 0");
        membership.on_connected(Tick(now), None);
        assert_eq!(step(&mut membership, now), "connect 1");
        membership.on_connected(Tick(now), None);
        let MembershipStep::Wait { until } = membership.next(Tick(now)) else {
            panic!("it does not wait")
        };
        let waited = until.since_ms(Tick(now));
        assert!((longest / 2..=longest).contains(&waited), "{waited} of {longest}");
        now = until.0;
    }
    assert!(!membership.is_well());
}

#[test]
fn a_lost_master_is_looked_for_at_the_next_address_at_once() {
    for lost in [
        gone(),
        Err(CallError::TimedOut { after_ms: 1 }),
        Ok(Reply::Done(Ok(()))),
        Ok(Reply::Refused(ErrorCode::UnavailableInCurrentMode)),
    ] {
        let mut membership = membership();
        settle(&mut membership, 0, 5);
        assert_eq!(step(&mut membership, 1000), "ping for 2");
        membership.on_reply(Tick(1500), lost);
        assert!(!membership.is_well() && !membership.is_settled());
        assert_eq!(step(&mut membership, 1500), "connect 1");
        membership.on_connected(Tick(1500), Some(Epoch(6)));
        assert!(!membership.is_well(), "a connection alone is no answer");
        assert_eq!(step(&mut membership, 1500), "ping for 2");
        membership.on_reply(Tick(1500), pong(false, 6));
        mount_both(&mut membership, 1500, 6);
    }
}

#[test]
fn a_connection_lost_while_mounting_goes_on_where_it_was() {
    let mut membership = membership();
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 0), "ping for 2");
    membership.on_reply(Tick(0), pong(true, 5));
    assert_eq!(step(&mut membership, 0), "mount 1 having seen 5");
    membership.on_reply(Tick(0), gone());
    assert_eq!(step(&mut membership, 0), "connect 1");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 0), "ping for 2");
    membership.on_reply(Tick(0), pong(true, 5));
    mount_both(&mut membership, 0, 5);
}

/// The leader may still list the segment under an earlier process of this node.
#[test]
fn a_segment_that_is_refused_is_named_and_tried_again_though_the_master_does_not_ask() {
    let mut membership = membership();
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 0), "ping for 2");
    membership.on_reply(Tick(0), pong(true, 5));
    assert_eq!(step(&mut membership, 0), "mount 1 having seen 5");
    membership.on_reply(Tick(0), Ok(Reply::Done(Err(ErrorCode::SegmentAlreadyExists))));
    assert_eq!(step(&mut membership, 0), "mount 2 having seen 5");
    membership.on_reply(Tick(0), mounted(MountOutcome::Ready));
    assert!(membership.is_settled());
    assert_eq!(membership.mount_refusal(), Some((&lent(1), ErrorCode::SegmentAlreadyExists)));
    assert_eq!(step(&mut membership, 1000), "ping for 2");
    membership.on_reply(Tick(1000), pong(false, 5));
    assert_eq!(membership.mount_refusal(), None);
    mount_both(&mut membership, 1000, 5);
    assert_eq!(step(&mut membership, 2000), "ping for 2");
    membership.on_reply(Tick(2000), pong(false, 5));
    assert!(step(&mut membership, 2000).starts_with("wait"), "all are mounted");
}

/// A leader that has lost its lease, or cannot write its membership record, refuses segments for now.
#[test]
fn a_segment_that_is_put_off_is_named_and_mounted_after_the_next_pong() {
    for code in [ErrorCode::UnavailableInCurrentStatus, ErrorCode::PersistentFail] {
        let mut membership = membership();
        assert_eq!(step(&mut membership, 0), "connect 0");
        membership.on_connected(Tick(0), Some(Epoch(5)));
        assert_eq!(step(&mut membership, 0), "ping for 2");
        membership.on_reply(Tick(0), pong(true, 5));
        for now in [0, 1000, 2000] {
            assert_eq!(step(&mut membership, now), "mount 1 having seen 5");
            membership.on_reply(Tick(now), Ok(Reply::Done(Err(code))));
            assert!(!membership.is_settled(), "the leader may take it yet");
            assert!(step(&mut membership, now).starts_with("wait"), "it is not pressed");
            assert_eq!(step(&mut membership, now + 1000), "ping for 2");
            membership.on_reply(Tick(now + 1000), pong(true, 5));
            assert_eq!(membership.mount_refusal(), Some((&lent(1), code)));
        }
        mount_both(&mut membership, 3000, 5);
        assert!(membership.is_settled());
        assert_eq!(membership.mount_refusal(), None);
    }
}

#[test]
fn a_client_that_may_not_lend_asks_with_each_pong_and_connects_again_now_and_then() {
    let mut membership = membership();
    let mut connects = 0;
    for now in (0..20_000).step_by(250) {
        loop {
            let step = step(&mut membership, now);
            match &step[..5] {
                "wait " => break,
                "conne" => {
                    connects += 1;
                    membership.on_connected(Tick(now), Some(Epoch(5)));
                }
                "ping " => membership.on_reply(Tick(now), pong(true, 5)),
                "mount" => {
                    let denied = Reply::Refused(ErrorCode::PermissionDenied);
                    membership.on_reply(Tick(now), Ok(denied));
                    let denied = Some((&lent(1), ErrorCode::PermissionDenied));
                    assert_eq!(membership.mount_refusal(), denied);
                }
                _ => panic!("{step}"),
            }
        }
    }
    assert!((3..=5).contains(&connects), "{connects} in 20 seconds");
}

#[test]
fn a_client_that_lends_nothing_only_pings() {
    let mut membership = Membership::new(1, Chance::new(1));
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert!(!membership.is_settled());
    assert_eq!(step(&mut membership, 0), "ping for 0");
    membership.on_reply(Tick(0), pong(false, 5));
    assert!(membership.is_settled());
    assert_eq!(step(&mut membership, 0), "wait until 1000");
}

#[test]
fn a_segment_that_was_lent_later_is_named_and_mounted_again_like_the_first() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    membership.lend_also(lent(3));
    assert!(membership.is_settled(), "the master has it already");
    assert_eq!(step(&mut membership, 1000), "ping for 3");
    membership.on_reply(Tick(1000), pong(true, 5));
    mount_both(&mut membership, 1000, 5);
    assert_eq!(step(&mut membership, 1000), "mount 3 having seen 5");
    membership.on_reply(Tick(1000), mounted(MountOutcome::Ready));
    assert!(membership.is_settled());
}

#[test]
fn a_segment_that_was_taken_back_is_neither_named_nor_mounted() {
    for (taken, left) in [(1, 2), (2, 1)] {
        let mut membership = membership();
        settle(&mut membership, 0, 5);
        membership.take_back(SegmentId(taken));
        membership.take_back(SegmentId(9));
        assert!(membership.is_settled());
        assert_eq!(step(&mut membership, 1000), "ping for 1");
        membership.on_reply(Tick(1000), pong(true, 5));
        assert_eq!(step(&mut membership, 1000), format!("mount {left} having seen 5"));
        let refused = Ok(Reply::Done(Err(ErrorCode::InvalidParams)));
        membership.on_reply(Tick(1000), refused);
        let refusal = membership.mount_refusal().map(|(segment, code)| (segment.id, code));
        assert_eq!(refusal, Some((SegmentId(left), ErrorCode::InvalidParams)));
        membership.take_back(SegmentId(left));
        assert_eq!(membership.mount_refusal(), None);
    }
}

#[test]
fn a_segment_taken_back_between_two_mounts_leaves_the_rest_to_be_mounted() {
    let mut membership = membership();
    membership.lend_also(lent(3));
    membership.lend(vec![lent(1), lent(2), lent(3)]);
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 0), "ping for 3");
    membership.on_reply(Tick(0), pong(true, 5));
    assert_eq!(step(&mut membership, 0), "mount 1 having seen 5");
    membership.on_reply(Tick(0), mounted(MountOutcome::Ready));
    membership.take_back(SegmentId(1));
    membership.lend_also(lent(4));
    for segment in [2, 3, 4] {
        assert_eq!(step(&mut membership, 0), format!("mount {segment} having seen 5"));
        membership.on_reply(Tick(0), mounted(MountOutcome::Ready));
    }
    assert!(membership.is_settled());
}

#[test]
fn a_retired_segment_is_unmounted_as_soon_as_the_master_can_be_reached() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    membership.unmount(SegmentId(7), "");
    assert_eq!(step(&mut membership, 10), "unmount 7");
    membership.on_reply(Tick(10), gone());
    assert_eq!(step(&mut membership, 10), "connect 1");
    membership.on_connected(Tick(10), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 10), "ping for 2");
    membership.on_reply(Tick(10), pong(false, 5));
    assert_eq!(step(&mut membership, 10), "unmount 7");
    membership.on_reply(Tick(10), Ok(Reply::Done(Err(ErrorCode::SegmentNotFound))));
    assert_eq!(step(&mut membership, 10), "wait until 260");
}

#[test]
fn a_node_that_cannot_be_reached_is_reported_at_once_and_once() {
    let mut membership = membership();
    membership.report(vec![SegmentId(8)]);
    assert_eq!(step(&mut membership, 0), "connect 0");
    membership.on_connected(Tick(0), Some(Epoch(5)));
    assert_eq!(step(&mut membership, 0), "ping for 2 that cannot reach 1");
    membership.on_reply(Tick(0), pong(true, 5));
    mount_both(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 0), "wait until 250");
    membership.report(vec![SegmentId(8), SegmentId(9)]);
    membership.report(Vec::new());
    assert_eq!(step(&mut membership, 10), "ping for 2 that cannot reach 2");
    membership.on_reply(Tick(10), pong(false, 5));
    assert_eq!(step(&mut membership, 10), "wait until 260");
    assert_eq!(step(&mut membership, 260), "ping for 2");
}
