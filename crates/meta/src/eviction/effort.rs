//! What one request may do to make room: its work is bounded.

/// Steps that one request takes in search of windows: ranges that are looked at.
const STEPS_PER_REQUEST: u32 = 1 << 18;
/// Steps for one replica.
const STEPS_PER_REPLICA: u32 = 1 << 15;
/// Ranges that the puts of one request evict. A group counts as its objects, and is never split.
const VICTIMS_PER_REQUEST: u32 = 1 << 17;

/// What one request may yet do to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    steps: u32,
    /// Of these, those for the replica that is placed now.
    replica_steps: u32,
    /// Ranges that it may yet evict.
    pub(super) victims: u32,
    /// See [`Effort::next_start`].
    start: usize,
}

impl Effort {
    pub(crate) fn new(start: usize) -> Self {
        Self { steps: STEPS_PER_REQUEST, replica_steps: 0, victims: VICTIMS_PER_REQUEST, start }
    }

    /// Where the route of the next replica begins, among so many segments. Replicas go to one segment after the other, from a
    /// random one on: each gets its share of a batch, and what was looked at for one put is near for the next.
    pub(crate) fn next_start(&mut self, segments: usize) -> usize {
        let start = self.start % segments;
        self.start = start + 1;
        start
    }

    /// Where the route of the next replica begins, as long as segments stay as they are.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Another replica is placed.
    pub(crate) fn begin_replica(&mut self) {
        self.replica_steps = STEPS_PER_REPLICA.min(self.steps);
    }

    /// Whether anything more may be looked at for this replica.
    pub(crate) fn is_left(&self) -> bool {
        self.replica_steps > 0
    }

    /// Takes some steps. False if too few are left.
    pub(crate) fn take(&mut self, steps: u32) -> bool {
        let is_enough = self.replica_steps >= steps;
        self.replica_steps = self.replica_steps.saturating_sub(steps);
        self.steps = self.steps.saturating_sub(steps);
        is_enough
    }
}
