use crate::SegmentId;

/// How an object is protected from eviction for a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftPin {
    /// No soft pin of its own; an upsert keeps the soft pin of the object that it replaces.
    #[default]
    Preserve,
    /// Pinned until a fixed time after the object became readable.
    Enable {
        /// The duration in milliseconds; the master's default if absent. Zero means no pin.
        ttl_ms: Option<u64>,
    },
    /// No soft pin; an upsert removes the soft pin of the object that it replaces.
    Disable,
    /// Pinned until it has not been accessed for the master's default time; the next access pins it again.
    Sliding,
}

/// Where the master places the replicas of an object, and what protects them from eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicateConfig<'a> {
    /// Number of memory replicas wanted, each on a segment of its own. The master makes at least one, and as many as
    /// it can.
    pub replica_num: u32,
    /// Protection from eviction for a time.
    pub soft_pin: SoftPin,
    /// Whether the master never evicts the object. Callers can still remove it.
    pub hard_pin: bool,
    /// Segment names to try first, in order.
    pub preferred_segments: Vec<&'a str>,
    /// Segments on which a write of this client just failed. The master grants no range there.
    pub excluded_segments: Vec<SegmentId>,
    /// Whether all objects of the request go to one segment, as far as it has room. That is the first object's
    /// segment, unless [`ReplicateConfig::preferred_segments`] names others.
    pub same_node: bool,
    /// The type of the data, the Python API's `ObjectDataType`. The store keeps it and does not act on it.
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
