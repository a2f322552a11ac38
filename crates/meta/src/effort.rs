//! How much one turn of the master's owner thread may do.
//!
//! The thread answers one request or does one part of the due work, and everybody else waits meanwhile. So all work
//! that grows with the pool takes its steps from here: drains, repair, reviews, evictions, the search for windows,
//! statistics. Whatever is left when the steps are used up is done in a later turn.
//!
//! A step looks at one record. To change a record costs [`CHANGE`] steps.

use crate::tenants::NO_LANE;

/// What it costs to change a record: to evict or drop a replica, to begin a task, to fire a timer.
pub(crate) const CHANGE: u32 = 16;

/// Steps of a turn that answers no request.
const STEPS_PER_TURN: u32 = 4_096;

/// Number of records that a page of statistics copies: as many as one turn may change.
pub(crate) const RECORDS_PER_PAGE: u32 = STEPS_PER_TURN / CHANGE;

/// Most steps that one request takes in search of windows.
const STEPS_PER_REQUEST: u32 = 1 << 18;
/// Most steps for one replica.
const STEPS_PER_REPLICA: u32 = 1 << 15;
/// Most ranges that the puts of one request evict. A group counts as its objects, and is never split.
const VICTIMS_PER_REQUEST: u32 = 1 << 17;

/// What the present turn may still do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    steps: u32,
    /// Steps that are left for the replica that is placed now.
    replica_steps: u32,
    /// Ranges that the puts of the request may still evict.
    pub(crate) victims: u32,
    /// See [`Effort::next_start`].
    start: usize,
    /// The lane of the tenant for which the present step works.
    pub(crate) lane: u32,
}

impl Effort {
    /// The effort of a turn that answers a request. `start`: see [`Effort::next_start`].
    pub(crate) fn of_request(start: usize) -> Self {
        Self {
            steps: STEPS_PER_REQUEST,
            replica_steps: 0,
            victims: VICTIMS_PER_REQUEST,
            start,
            lane: NO_LANE,
        }
    }

    /// The effort of a turn that does due work.
    pub(crate) fn of_turn() -> Self {
        Self { steps: STEPS_PER_TURN, ..Self::of_request(0) }
    }

    /// The place at which the walk for the next replica begins, among `segments` places. Each replica begins one
    /// place after the last, from a random place on. So each segment gets its share of a batch, and consecutive puts
    /// look at neighbouring segments.
    pub(crate) fn next_start(&mut self, segments: usize) -> usize {
        let start = self.start % segments;
        self.start = start + 1;
        start
    }

    /// The place at which the walk for the next replica begins, if no segment joins or leaves before.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Takes some steps. False if none were left: then the work waits for a later turn. The last work of a turn may
    /// cost more steps than are left.
    pub(crate) fn spend(&mut self, steps: u32) -> bool {
        let is_left = self.steps > 0;
        self.steps = self.steps.saturating_sub(steps);
        is_left
    }

    /// Whether steps are left in this turn.
    pub(crate) fn is_left(&self) -> bool {
        self.steps > 0
    }

    /// Begins the steps of another replica.
    pub(crate) fn begin_replica(&mut self) {
        self.replica_steps = STEPS_PER_REPLICA.min(self.steps);
    }

    /// Whether steps are left for this replica.
    pub(crate) fn is_left_for_replica(&self) -> bool {
        self.replica_steps > 0
    }

    /// Takes some steps for this replica. False if fewer were left.
    pub(crate) fn take(&mut self, steps: u32) -> bool {
        let is_enough = self.replica_steps >= steps;
        self.replica_steps = self.replica_steps.saturating_sub(steps);
        self.steps = self.steps.saturating_sub(steps);
        is_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_once_its_steps_are_used_up() {
        let mut turn = Effort::of_turn();
        let changes = (0..10_000).take_while(|_| turn.spend(CHANGE)).count();
        assert_eq!((changes as u32, turn.is_left()), (RECORDS_PER_PAGE, false));
        let mut turn = Effort::of_turn();
        assert!(turn.spend(u32::MAX) && !turn.spend(1));
    }

    #[test]
    fn a_replica_takes_no_more_than_its_share_of_a_request() {
        let mut request = Effort::of_request(3);
        let mut replicas = 0;
        while request.is_left() {
            request.begin_replica();
            let mut steps = 0;
            while request.is_left_for_replica() {
                assert!(request.take(1));
                steps += 1;
            }
            assert_eq!(steps, STEPS_PER_REPLICA);
            replicas += 1;
        }
        assert_eq!(replicas, STEPS_PER_REQUEST / STEPS_PER_REPLICA);
    }
}
