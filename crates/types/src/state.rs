/// The life of one replica, as callers of the Python API see it. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ReplicaStatus {
    /// No replica.
    #[default]
    Undefined = 0,
    /// A range is allocated, nothing is written.
    Initialized = 1,
    /// The writer has its grant and has not ended its put.
    Processing = 2,
    /// All bytes are in place; readers may have it.
    Complete = 3,
    /// Removed.
    Removed = 4,
    /// The write failed.
    Failed = 5,
}

/// The life of one segment at the master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SegmentState {
    /// Not known to the master.
    #[default]
    Undefined = 0,
    /// Mounted: it takes puts and serves gets.
    Ok = 1,
    /// Its objects are being moved to other segments.
    Draining = 2,
    /// Nothing is left on it.
    Drained = 3,
    /// It serves gets until its grace period ends and takes no puts.
    GracefullyUnmounting = 4,
    /// It serves nothing; the master is forgetting its objects.
    Unmounting = 5,
    /// Its node is telling the master what lies there: it serves what was told, and takes no puts.
    Recovering = 6,
}
