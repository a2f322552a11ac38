use std::fmt;

/// A client process for as long as it lives: drawn at random when the process sets its store up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u128);

impl ClientId {
    /// Who asks when an operator does, through the admin HTTP server. No client calls itself so, and it neither
    /// lives nor dies.
    pub const OPERATOR: ClientId = ClientId(0);
}

/// One incarnation of a segment: drawn at random when the memory is mapped, so that memory that was lost and
/// mapped again never answers for its predecessor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u128);

/// The fencing number of a leader. A node obeys only the highest that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The version of one put. It grows over the whole cluster: first by leader, then by put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The leader that granted the put.
    pub epoch: Epoch,
    /// The number of the grant under that leader, from 1.
    pub counter: u64,
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.counter)
    }
}
