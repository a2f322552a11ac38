//! The node fetches entries that the master wants dropped, drops them, and confirms the drops.

use mooncake_ops::CallError;
use mooncake_types::{
    Epoch, ErrorCode, MountOutcome, Pong, RangeDrop, Reply, SegmentId, Tick, Version,
};

use crate::{gone, membership, mount_both, mounted, pong, settle, step};

/// A pong that announces drops to fetch.
fn pong_with_drops(epoch: u64) -> Result<Reply, CallError> {
    let Ok(Reply::Pong(pong)) = pong(false, epoch) else { unreachable!() };
    Ok(Reply::Pong(Pong { has_drops: true, ..pong }))
}

fn ranges(count: u64) -> Vec<RangeDrop> {
    let version = Version { epoch: Epoch(5), counter: 1 };
    let range = |offset| RangeDrop { segment: SegmentId(1), offset, version, grant: version };
    (0..count).map(range).collect()
}

#[test]
fn what_the_master_wants_dropped_is_fetched_dropped_and_confirmed() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong_with_drops(5));
    assert_eq!(step(&mut membership, 250), "fetch drops having dropped 0");
    membership.on_reply(Tick(250), Ok(Reply::Drops(ranges(4096))));
    assert_eq!(step(&mut membership, 250), "drop 4096");
    membership.on_dropped(ranges(4095));
    // After a full list the node asks for more.
    assert_eq!(step(&mut membership, 250), "fetch drops having dropped 4095");
    membership.on_reply(Tick(250), Ok(Reply::Drops(ranges(3))));
    assert_eq!(step(&mut membership, 250), "drop 3");
    membership.on_dropped(ranges(3));
    assert_eq!(step(&mut membership, 250), "wait until 500");
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong_with_drops(5));
    assert_eq!(step(&mut membership, 500), "fetch drops having dropped 3");
    membership.on_reply(Tick(500), Ok(Reply::Drops(Vec::new())));
    assert_eq!(step(&mut membership, 500), "wait until 750");
}

#[test]
fn a_leader_that_is_not_obeyed_any_more_has_nothing_dropped() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong_with_drops(5));
    assert_eq!(step(&mut membership, 250), "fetch drops having dropped 0");
    membership.on_reply(Tick(250), Ok(Reply::Drops(ranges(3))));
    membership.see_epoch(Epoch(6));
    assert_eq!(step(&mut membership, 250), "wait until 500");
}

#[test]
fn what_was_not_confirmed_to_one_leader_is_not_confirmed_to_the_next() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong_with_drops(5));
    assert_eq!(step(&mut membership, 250), "fetch drops having dropped 0");
    membership.on_reply(Tick(250), Ok(Reply::Drops(ranges(3))));
    assert_eq!(step(&mut membership, 250), "drop 3");
    membership.on_dropped(ranges(3));
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), gone());
    assert_eq!(step(&mut membership, 500), "connect 1");
    membership.on_connected(Tick(500), Some(Epoch(6)));
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong_with_drops(6));
    mount_both(&mut membership, 500, 6);
    assert_eq!(step(&mut membership, 500), "fetch drops having dropped 0");
}

#[test]
fn lost_entries_are_reported_between_two_pings_and_after_a_refusal_with_the_next() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 0), "report losses");
    membership.on_reply(Tick(0), Ok(Reply::Done(Ok(()))));
    assert_eq!(step(&mut membership, 0), "wait until 250");
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 0), "report losses");
    let later = ErrorCode::UnavailableInCurrentStatus;
    membership.on_reply(Tick(0), Ok(Reply::Done(Err(later))));
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 0), "wait until 250");
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(false, 5));
    assert_eq!(step(&mut membership, 250), "report losses");
}

/// The new leader would believe what a lost version had replaced on other nodes.
#[test]
fn lost_entries_are_reported_to_a_new_leader_before_it_hears_what_is_left() {
    let mut membership = membership();
    settle(&mut membership, 0, 5);
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), gone());
    assert_eq!(step(&mut membership, 250), "connect 1");
    membership.on_connected(Tick(250), Some(Epoch(6)));
    assert_eq!(step(&mut membership, 250), "ping for 2");
    membership.on_reply(Tick(250), pong(true, 6));
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 250), "report losses");
    let later = ErrorCode::UnavailableInCurrentStatus;
    membership.on_reply(Tick(250), Ok(Reply::Done(Err(later))));
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 250), "wait until 500");
    assert_eq!(step(&mut membership, 500), "ping for 2");
    membership.on_reply(Tick(500), pong(true, 6));
    assert_eq!(step(&mut membership, 500), "report losses");
    membership.on_reply(Tick(500), Ok(Reply::Done(Ok(()))));
    membership.see_losses(false);
    assert_eq!(step(&mut membership, 500), "mount 1 having seen 6");
    membership.on_reply(Tick(500), mounted(MountOutcome::WantsInventory));
    membership.see_losses(true);
    assert_eq!(step(&mut membership, 500), "report losses", "lost since the last report");
    membership.on_reply(Tick(500), Ok(Reply::Done(Ok(()))));
    membership.see_losses(false);
    assert_eq!(step(&mut membership, 500), "report 1 page 0 from 0");
}

#[test]
#[cfg(debug_assertions)]
fn a_client_that_does_not_report_lost_entries_first_fails_that_test() {
    use mooncake_types::mutation::{Rule, break_rule};

    break_rule(Some(Rule::LossesAreToldFirst));
    let test = lost_entries_are_reported_to_a_new_leader_before_it_hears_what_is_left;
    let result = std::panic::catch_unwind(test);
    break_rule(None);
    assert!(result.is_err());
}
