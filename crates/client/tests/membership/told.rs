//! A node sends its inventory to a new leader.

use mooncake_client::membership::{Membership, MembershipStep};
use mooncake_ops::CallError;
use mooncake_types::{Epoch, ErrorCode, MountOutcome, Reply, Request, SegmentId, Tick};

use crate::{gone, lent, membership, mounted, pong, settle, step};

fn done(result: Result<(), ErrorCode>) -> Result<Reply, CallError> {
    Ok(Reply::Done(result))
}

/// The leader of epoch 6 asks for the inventory of segment 1.
fn wanted(membership: &mut Membership, now: u64) {
    assert_eq!(step(membership, now), "ping for 2");
    membership.on_reply(Tick(now), pong(true, 6));
    assert_eq!(step(membership, now), "mount 1 having seen 6");
    membership.on_reply(Tick(now), mounted(MountOutcome::WantsInventory));
}

#[test]
fn a_leader_that_wants_to_know_is_told_page_by_page() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted(&mut membership, 250);
    assert!(!membership.is_settled());
    assert_eq!(step(&mut membership, 250), "report 1 page 0 from 0");
    membership.on_reported(Tick(260), Some(70), done(Ok(())));
    assert_eq!(step(&mut membership, 260), "report 1 page 1 from 70");
    membership.on_reported(Tick(270), None, done(Ok(())));
    assert_eq!(step(&mut membership, 270), "mount 2 having seen 6");
    membership.on_reply(Tick(270), mounted(MountOutcome::WantsInventory));
    assert_eq!(step(&mut membership, 270), "report 2 page 0 from 0");
    membership.on_reported(Tick(280), None, done(Ok(())));
    assert!(membership.is_settled());
    assert_eq!(step(&mut membership, 280), "wait until 500");
}

#[test]
fn pings_go_on_while_much_is_told_and_a_master_that_lacks_the_other_segments_is_no_news() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted(&mut membership, 250);
    for (page, now) in [(0, 300), (1, 400), (2, 499)] {
        let report = format!("report 1 page {page} from {}", page * 10);
        assert_eq!(step(&mut membership, now), report);
        membership.on_reported(Tick(now), Some((page + 1) * 10), done(Ok(())));
    }
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(510), pong(true, 6));
    assert_eq!(step(&mut membership, 510), "report 1 page 3 from 30");
    membership.report(vec![SegmentId(9)]);
    membership.on_reported(Tick(520), Some(40), done(Ok(())));
    assert_eq!(step(&mut membership, 520), "ping for 2 that cannot reach 1");
    membership.on_reply(Tick(520), pong(true, 6));
    assert_eq!(step(&mut membership, 520), "report 1 page 4 from 40");
}

#[test]
fn what_was_told_in_part_is_told_again_from_the_start() {
    for lost in [gone(), Ok(Reply::Refused(ErrorCode::UnavailableInCurrentMode))] {
        let mut membership = membership();
        settle(&mut membership, 0, 5);
        wanted(&mut membership, 250);
        assert_eq!(step(&mut membership, 250), "report 1 page 0 from 0");
        membership.on_reported(Tick(250), Some(70), done(Ok(())));
        assert_eq!(step(&mut membership, 250), "report 1 page 1 from 70");
        membership.on_reported(Tick(250), Some(90), lost);
        assert_eq!(step(&mut membership, 250), "connect 1");
        membership.on_connected(Tick(250), Some(Epoch(6)));
        assert_eq!(step(&mut membership, 250), "ping for 2");
        membership.on_reply(Tick(250), pong(false, 6));
        assert_eq!(step(&mut membership, 250), "mount 1 having seen 6");
        membership.on_reply(Tick(250), mounted(MountOutcome::WantsInventory));
        assert_eq!(step(&mut membership, 250), "report 1 page 0 from 0");
    }
}

#[test]
fn a_page_that_is_refused_ends_the_inventory_until_the_master_asks_again() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted(&mut membership, 250);
    assert_eq!(step(&mut membership, 250), "report 1 page 0 from 0");
    membership.on_reported(Tick(250), Some(70), done(Err(ErrorCode::InvalidParams)));
    assert_eq!(step(&mut membership, 250), "mount 2 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::Ready));
    assert_eq!(membership.mount_refusal(), Some((&lent(1), ErrorCode::InvalidParams)));
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong(true, 6));
    assert_eq!(step(&mut membership, 500), "mount 1 having seen 6");
}

#[test]
fn nothing_is_told_before_the_node_obeys_the_leader_that_wants_it() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    // Before the node answers this leader, a writer shows it the grant of a leader with a higher epoch.
    wanted(&mut membership, 250);
    membership.see_epoch(Epoch(8));
    assert_eq!(step(&mut membership, 260), "wait until 500");
    assert!(!membership.is_settled());
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong(false, 6));
    assert_eq!(step(&mut membership, 500), "mount 1 having seen 8");
    // The leader's epoch is still lower than the epoch that the node obeys, so the node sends no inventory.
    membership.on_reply(Tick(500), mounted(MountOutcome::WantsInventory));
    assert_eq!(step(&mut membership, 500), "wait until 750");
    assert_eq!(step(&mut membership, 750), "ping for 2");
    membership.on_reply(Tick(750), pong(false, 9));
    assert_eq!(step(&mut membership, 750), "mount 1 having seen 9");
    membership.on_reply(Tick(750), mounted(MountOutcome::WantsInventory));
    assert_eq!(step(&mut membership, 750), "report 1 page 0 from 0");
}

#[test]
fn a_segment_that_must_start_empty_is_mounted_under_another_id() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(true, 6));
    assert_eq!(step(&mut membership, 250), "mount 1 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::StartEmpty));
    assert_eq!(step(&mut membership, 250), "start 1 empty");
    membership.on_started_empty(Tick(250), Some(SegmentId(11)));
    assert_eq!(step(&mut membership, 250), "mount 11 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::Ready));
    assert_eq!(step(&mut membership, 250), "mount 2 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::Ready));
    let MembershipStep::Call(Request::Ping { segments, .. }) = membership.next(Tick(500)) else {
        panic!("it does not ping")
    };
    assert_eq!(segments, [SegmentId(11), SegmentId(2)]);
}

#[test]
fn a_master_that_always_wants_a_segment_empty_is_asked_no_more_often_than_it_pongs() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(true, 6));
    assert_eq!(step(&mut membership, 250), "mount 1 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::StartEmpty));
    assert_eq!(step(&mut membership, 250), "start 1 empty");
    membership.on_started_empty(Tick(250), Some(SegmentId(11)));
    assert_eq!(step(&mut membership, 250), "mount 11 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::StartEmpty));
    assert_eq!(step(&mut membership, 250), "mount 2 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::Ready));
    assert_eq!(step(&mut membership, 250), "wait until 500");
}

#[test]
fn a_client_without_a_new_id_leaves_its_master_and_comes_back() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(true, 6));
    assert_eq!(step(&mut membership, 250), "mount 1 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::StartEmpty));
    assert_eq!(step(&mut membership, 250), "start 1 empty");
    membership.on_started_empty(Tick(250), None);
    assert_eq!(step(&mut membership, 250), "connect 1");
    assert!(!membership.is_well());
}

/// The leader of epoch 6 asks for the changes in segment 1 since this number.
fn wanted_changes(membership: &mut Membership, since: u64) {
    assert_eq!(step(membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(true, 6));
    assert_eq!(step(membership, 250), "mount 1 having seen 6");
    membership.on_reply(Tick(250), mounted(MountOutcome::WantsChanges { since }));
}

#[test]
fn who_was_followed_tells_what_changed_page_by_page() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted_changes(&mut membership, 70);
    assert_eq!(step(&mut membership, 250), "tell page 0 of what changed in 1 since 70");
    membership.on_reported(Tick(250), Some(90), done(Ok(())));
    assert_eq!(step(&mut membership, 250), "tell page 1 of what changed in 1 since 90");
    membership.on_reported(Tick(250), None, done(Ok(())));
    assert_eq!(step(&mut membership, 250), "mount 2 having seen 6");
}

#[test]
fn who_does_not_know_any_more_what_changed_tells_everything() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted_changes(&mut membership, 70);
    assert_eq!(step(&mut membership, 250), "tell page 0 of what changed in 1 since 70");
    membership.on_reported(Tick(250), Some(90), done(Ok(())));
    assert_eq!(step(&mut membership, 250), "tell page 1 of what changed in 1 since 90");
    membership.on_changes_forgotten();
    assert_eq!(step(&mut membership, 250), "report 1 page 0 from 0");
    membership.on_reported(Tick(250), None, done(Ok(())));
    assert_eq!(step(&mut membership, 250), "mount 2 having seen 6");
}

#[test]
fn what_changed_is_told_to_nobody_but_the_leader_that_the_node_obeys() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    wanted_changes(&mut membership, 70);
    membership.see_epoch(Epoch(8));
    assert_eq!(step(&mut membership, 260), "wait until 500");
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong(false, 6));
    assert_eq!(step(&mut membership, 500), "mount 1 having seen 8");
    membership.on_reply(Tick(500), mounted(MountOutcome::WantsChanges { since: 70 }));
    assert_eq!(step(&mut membership, 500), "wait until 750");
}
