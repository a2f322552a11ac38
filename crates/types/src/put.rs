use crate::SegmentId;

/// How an object resists eviction for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftPin {
    /// No soft pin; on an upsert, keep what the object had.
    #[default]
    Preserve,
    /// Pinned until a fixed deadline after the object became readable.
    Enable {
        /// Milliseconds; the master's default if absent; zero means an ordinary object.
        ttl_ms: Option<u64>,
    },
    /// No soft pin; on an upsert, take away what the object had.
    Disable,
    /// Pinned until it has not been accessed for the master's default time; the next access pins it again.
    Sliding,
}

/// How the replicas of an object are to be placed and kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicateConfig<'a> {
    /// Memory replicas wanted, each on a segment of its own; best effort, at least one.
    pub replica_num: u32,
    /// Resistance to eviction.
    pub soft_pin: SoftPin,
    /// Never evicted; removal is still possible.
    pub hard_pin: bool,
    /// Segment names to try first, in order.
    pub preferred_segments: Vec<&'a str>,
    /// Segments that just failed this writer and are not to be granted again.
    pub excluded_segments: Vec<SegmentId>,
    /// The objects of one request go to one segment, as far as it has room: to the first object's, unless
    /// [`ReplicateConfig::preferred_segments`] names others.
    pub same_node: bool,
    /// What the bytes are (the Python API's `ObjectDataType`); stored, not acted on.
    pub data_type: u8,
}

impl Default for ReplicateConfig<'_> {
    fn default() -> Self {
        Self {
            replica_num: 1,
            soft_pin: SoftPin::default(),
            hard_pin: false,
            preferred_segments: Vec::new(),
            excluded_segments: Vec::new(),
            same_node: false,
            data_type: 0,
        }
    }
}
