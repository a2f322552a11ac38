//! The bounds on what one request may do to make room.

/// Most steps that one request takes in search of windows. A step looks at one range.
const STEPS_PER_REQUEST: u32 = 1 << 18;
/// Most steps for one replica.
const STEPS_PER_REPLICA: u32 = 1 << 15;
/// Most ranges that the puts of one request evict. A group counts as its objects, and is never split.
const VICTIMS_PER_REQUEST: u32 = 1 << 17;

/// What the current request may still do to make room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    steps: u32,
    /// Steps that are left for the replica that is placed now.
    replica_steps: u32,
    /// Ranges that the request may still evict.
    pub(super) victims: u32,
    /// See [`Effort::next_start`].
    start: usize,
}

impl Effort {
    pub(crate) fn new(start: usize) -> Self {
        Self { steps: STEPS_PER_REQUEST, replica_steps: 0, victims: VICTIMS_PER_REQUEST, start }
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

    /// Begins the steps of another replica.
    pub(crate) fn begin_replica(&mut self) {
        self.replica_steps = STEPS_PER_REPLICA.min(self.steps);
    }

    /// Whether steps are left for this replica.
    pub(crate) fn is_left(&self) -> bool {
        self.replica_steps > 0
    }

    /// Takes some steps. False if fewer were left.
    pub(crate) fn take(&mut self, steps: u32) -> bool {
        let is_enough = self.replica_steps >= steps;
        self.replica_steps = self.replica_steps.saturating_sub(steps);
        self.steps = self.steps.saturating_sub(steps);
        is_enough
    }
}
