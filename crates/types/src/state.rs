/// The states of one replica, as callers of the Python API see them. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplicaStatus {
    /// No replica.
    #[default]
    Undefined = 0,
    /// A range is allocated, nothing is written.
    Initialized = 1,
    /// The writer has its grant, and has not ended its put.
    Processing = 2,
    /// All bytes are in place; readers may read it.
    Complete = 3,
    /// Removed.
    Removed = 4,
    /// The write failed.
    Failed = 5,
}

/// The states of one segment at the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SegmentState {
    /// The master does not know the segment.
    #[default]
    Undefined = 0,
    /// Mounted: it takes puts and serves gets.
    Ok = 1,
    /// A drain job is moving its replicas to other segments.
    Draining = 2,
    /// A drain job has ended, and no replica is left on it.
    Drained = 3,
    /// It serves gets until its grace period ends, and takes no puts.
    GracefullyUnmounting = 4,
    /// It serves nothing; the master is removing its replicas.
    Unmounting = 5,
    /// Its node is reporting its ledger to the master. The segment serves the reported entries, and takes no puts.
    Recovering = 6,
}
