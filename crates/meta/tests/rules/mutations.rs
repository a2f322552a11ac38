//! Tests of tests: each of these breaks a rule of recovery, and the test of that rule must fail.

use std::panic::catch_unwind;

use mooncake_types::mutation::{Rule, break_rule};

use crate::{recovery, recovery_behind, recovery_reporting};

/// Whether a test fails while the rule is broken.
fn finds(rule: Rule, test: fn()) -> bool {
    break_rule(Some(rule));
    let result = catch_unwind(test);
    break_rule(None);
    result.is_err()
}

#[test]
fn each_broken_rule_of_recovery_fails_a_test() {
    let tests: [(Rule, fn()); 4] = [
        (
            Rule::ReportersAreAwaited,
            recovery_reporting::a_member_that_reports_for_longer_than_every_timer_loses_nothing_and_is_not_behind,
        ),
        (
            Rule::TheHeardAreAwaited,
            recovery_reporting::a_member_whose_node_pings_is_waited_for_and_not_for_ever,
        ),
        (Rule::StrangersStartEmpty, recovery::who_may_come_back_with_what_it_holds),
        (
            Rule::WhoAloneKnewTakesOthersAlong,
            recovery_behind::who_alone_could_tell_what_another_lacks_takes_it_along,
        ),
    ];
    for (rule, test) in tests {
        test();
        assert!(finds(rule, test), "{rule:?} is broken, and its test finds nothing wrong");
    }
}
