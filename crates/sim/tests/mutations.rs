//! Tests of the simulation itself: each test breaks one rule, and a bounded number of runs must detect that.

#![cfg(debug_assertions)]

use mooncake_sim::{Detail, Kind, run};
use mooncake_types::mutation::{Rule, break_rule};

const EVENTS: u64 = 500;

/// Runs up to `most` seeds, until a run finds a violation that it does not find while the rule holds.
fn finds(rule: Rule, kinds: &[Kind], most: u64) {
    for seed in 0..most {
        if kinds.iter().any(|&kind| is_found(rule, (seed, kind, EVENTS))) {
            return;
        }
    }
    panic!("{rule:?} is broken, and {most} runs of {kinds:?} find nothing wrong");
}

/// Whether this run finds a violation that it does not find while the rule holds.
fn is_found(rule: Rule, (seed, kind, events): (u64, Kind, u64)) -> bool {
    break_rule(Some(rule));
    let found = run(seed, kind, events, Detail::Nothing).violation;
    break_rule(None);
    let Some(violation) = found else { return false };
    if run(seed, kind, events, Detail::Nothing).violation.is_some() {
        return false;
    }
    println!("{rule:?} broken: run {seed}, {kind:?}, finds {violation:?}");
    true
}

#[test]
fn l1_entries_that_overlap_are_dropped_first() {
    finds(Rule::OverlappedEntriesAreDropped, &[Kind::Calm, Kind::Network], 200);
}

#[test]
fn l2_an_entry_is_complete_when_all_parts_are_there() {
    finds(Rule::AllPartsAreThere, &[Kind::Calm, Kind::Network], 200);
}

#[test]
fn l3_old_leaders_are_refused() {
    finds(Rule::OldLeadersAreRefused, &[Kind::Masters], 300);
}

#[test]
fn l7_older_grants_are_refused() {
    finds(Rule::OlderGrantsAreRefused, &[Kind::Network, Kind::Processes, Kind::Masters], 500);
}

#[test]
fn l7_older_writers_stop_first() {
    finds(Rule::OlderWritersStopFirst, &[Kind::Network, Kind::Processes, Kind::Masters], 3_000);
}

#[test]
fn l7_one_sided_writers_are_shut_out_first() {
    finds(Rule::WritersAreShutOut, &[Kind::Network, Kind::Processes, Kind::Masters], 500);
}

#[test]
fn quotas_of_tenants_are_kept() {
    finds(Rule::QuotasAreKept, &[Kind::Calm, Kind::Masters], 200);
}

#[test]
fn l8_remains_are_dropped() {
    finds(Rule::RemainsAreDropped, &[Kind::Calm, Kind::Network], 200);
}

/// This needs a writer that dies between its `PutEnd` and the drop, and a master that dies before it learns of the
/// drop.
#[test]
#[ignore = "minutes: it takes tens of thousands of seeds"]
fn l8_readers_drop_what_is_older_first() {
    finds(Rule::PredecessorsAreDropped, &[Kind::Masters], 40_000);
}

#[test]
#[ignore = "minutes: it takes thousands of seeds; `check_drop` has a test of its own"]
fn old_leaders_have_nothing_dropped() {
    finds(Rule::OldLeadersDropsAreRefused, &[Kind::Leaders], 40_000);
}

#[test]
fn l8_leaving_ranges_are_reserved() {
    finds(Rule::LeavingRangesAreReserved, &[Kind::Calm, Kind::Network], 3_000);
}

#[test]
fn l8_reads_grant_leases() {
    finds(Rule::ReadsGrantLeases, &[Kind::Calm, Kind::Network, Kind::Leaders], 300);
}

#[test]
fn l4_drops_are_confirmed() {
    finds(Rule::DropsAreConfirmed, &[Kind::Network, Kind::Processes, Kind::Masters], 500);
}

#[test]
fn l4_a_removal_asked_for_again_takes_only_what_it_took() {
    finds(Rule::RepeatsAreBounded, &[Kind::Network, Kind::Processes, Kind::Masters], 500);
}

/// This needs a lost answer to a `PutEnd`, and a client that removes the key at the same time.
#[test]
#[ignore = "half a minute: it takes hundreds of seeds"]
fn l4_a_put_whose_end_is_unknown_is_not_written_again() {
    finds(Rule::LostEndsAreUnknown, &[Kind::Network, Kind::Masters], 500);
}

#[test]
fn l4_removals_reach_the_nodes() {
    finds(Rule::RemovalsReachTheNodes, &[Kind::Masters], 500);
}

#[test]
fn l5_what_is_reported_is_reserved() {
    finds(Rule::RangesAreReserved, &[Kind::Masters], 500);
}

#[test]
fn l5_the_highest_version_wins() {
    finds(Rule::HighestVersionWins, &[Kind::Masters], 500);
}

/// While this rule is broken, another rule of the nodes, that older writers stop first, prevents most violations.
#[test]
#[ignore = "a minute: it takes a thousand seeds or more"]
fn l5_writers_are_waited_for() {
    finds(Rule::WritersAreWaitedFor, &[Kind::Masters, Kind::Leaders], 3_000);
}

#[test]
fn what_a_restarted_node_lost_does_not_count() {
    finds(Rule::RestartedNodesAreReviewed, &[Kind::Processes, Kind::Masters], 500);
}

#[test]
fn l5_what_a_standby_knew_is_confirmed() {
    finds(Rule::ShadowsAreConfirmed, &[Kind::Masters, Kind::Leaders], 500);
}

#[test]
fn l5_who_tells_what_changed_tells_of_drops() {
    finds(Rule::DropsAreTold, &[Kind::Masters, Kind::Leaders], 500);
}

#[test]
fn l6_latecomers_give_way() {
    finds(Rule::LatecomersGiveWay, &[Kind::Masters, Kind::Leaders], 2_000);
}

/// This needs a reader with a route to a node that the next leader does not hear from.
#[test]
fn l6_routes_end_with_their_leader() {
    finds(Rule::RoutesEndWithTheirLeader, &[Kind::Masters, Kind::Leaders], 2_000);
}

#[test]
fn l4_l6_of_copies_the_node_is_asked() {
    finds(Rule::CopiesAreAskedFor, &[Kind::Calm, Kind::Network, Kind::Processes], 200);
}

#[test]
fn l4_l6_promises_are_kept() {
    finds(Rule::PromisesAreKept, &[Kind::Calm, Kind::Network, Kind::Processes], 500);
}

#[test]
fn l6_routes_are_waited_for() {
    finds(Rule::RoutesAreWaitedFor, &[Kind::Masters, Kind::Leaders], 2_000);
}

const FAILOVERS: &[Kind] = &[Kind::Failovers];

#[test]
fn l6_the_silent_are_marked() {
    finds(Rule::TheSilentAreMarked, FAILOVERS, 100);
}

#[test]
fn l6_who_knows_more_reports_first() {
    finds(Rule::WhoKnowsMoreReportsFirst, FAILOVERS, 200);
}

#[test]
fn l4_l6_who_lacks_what_nobody_can_tell_starts_empty() {
    finds(Rule::TheUntoldStartEmpty, FAILOVERS, 400);
}

#[test]
fn l4_l6_changes_are_written_ahead() {
    finds(Rule::ChangesAreWrittenAhead, FAILOVERS, 200);
}

#[test]
fn l4_l6_overruled_entries_are_dropped() {
    finds(Rule::OverruledEntriesAreDropped, FAILOVERS, 200);
}

#[test]
fn what_a_node_lost_does_not_count() {
    finds(Rule::LossesAreTaken, FAILOVERS, 200);
}

/// This needs a removal under a leader that waits for a node, and the only replica of another object there. The first of these
/// runs finds it.
#[test]
fn removals_by_pattern_spare_what_does_not_match() {
    let mut long = (1_003..1_100).map(|seed| (seed, Kind::Recovery, 20_000));
    let is_one = |it| is_found(Rule::PatternsSpareOthers, it);
    assert!(long.any(is_one), "no long run finds it");
}

// Members that report or ping are waited for: runs are too short for leaders to lose anything when that is broken. Tests of the
// master's state machine find it: `crates/meta/tests/rules/mutations.rs`.

#[test]
fn l4_l6_what_the_record_struck_starts_empty() {
    finds(Rule::StrangersStartEmpty, FAILOVERS, 1_000);
}

#[test]
#[ignore = "a minute or two: it takes thousands of seeds; a test of the master's state machine finds it at once"]
fn l4_l6_who_alone_could_tell_takes_others_along() {
    finds(Rule::WhoAloneKnewTakesOthersAlong, FAILOVERS, 5_000);
}

#[test]
fn l4_l6_filtered_keys_are_overruled_too() {
    finds(Rule::FilteredKeysAreOverruled, FAILOVERS, 1_000);
}

#[test]
#[ignore = "a minute or two: it takes thousands of seeds; a test of the client's membership finds it at once"]
fn l6_what_a_node_lost_is_told_first() {
    finds(Rule::LossesAreToldFirst, FAILOVERS, 5_000);
}
