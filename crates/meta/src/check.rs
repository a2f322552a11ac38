//! The invariants. Each is a function whose name is a sentence. The `check` module of each folder has the invariants
//! of its records.

use std::fmt;

use crate::Meta;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub sentence: &'static str,
    /// The record that breaks the invariant.
    pub evidence: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "violated: {} ({})", self.sentence, self.evidence)
    }
}

pub(crate) type Check = Result<(), Violation>;

pub(crate) fn ensure(
    sentence: &'static str,
    holds: bool,
    evidence: impl FnOnce() -> String,
) -> Check {
    if holds { Ok(()) } else { Err(Violation { sentence, evidence: evidence() }) }
}

impl Meta {
    /// Tests all invariants. Takes time in proportion to the whole state.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.every_key_leads_to_its_object()?;
        self.every_object_is_made_of_its_ranges()?;
        self.every_range_stands_in_the_right_queue()?;
        self.every_allocator_reserves_just_what_is_known()?;
        self.every_queue_is_in_order()?;
        self.every_reservation_ends()?;
        self.every_put_beside_a_key_is_kept_by_key()?;
        self.every_group_knows_its_members()?;
        self.every_segment_is_seen_as_its_client_is()?;
        self.every_tenant_is_charged_for_its_memory()?;
        self.every_failure_domain_is_counted()?;
        self.every_room_is_noted()?;
        self.every_doubt_has_its_timer()?;
        self.every_task_is_where_its_status_says()?;
        self.every_object_that_lacks_replicas_is_counted()?;
        self.every_extra_replica_stands_in_for_none()?;
        self.every_object_that_sinks_is_counted()?;
        self.every_replica_that_is_left_out_is_drained()?;
        self.every_member_is_where_it_should_be()?;
        self.every_review_is_of_a_segment_that_takes_no_puts()?;
        self.every_tombstone_is_of_nothing_else()?;
        self.every_key_is_named_with_its_older_tombstones()?;
        self.every_stripe_that_waits_is_kept()
    }
}
