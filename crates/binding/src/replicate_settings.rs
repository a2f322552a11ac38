//! How a put stores an object, and how the pool keeps it, with the checks of combinations.

use std::fmt;

use mooncake_client::{ErrorCode, ReplicateConfig, SoftPin};

use crate::log;

/// The names of the actions for a soft pin, by number.
pub const SOFT_PIN_ACTIONS: [&str; 3] = ["PRESERVE", "ENABLE", "DISABLE"];
const PRESERVE: u8 = 0;
const ENABLE: u8 = 1;
const DISABLE: u8 = 2;
/// The names of the kinds of data, by number.
pub const DATA_TYPES: [&str; 10] = [
    "UNKNOWN",
    "KVCACHE",
    "TENSOR",
    "WEIGHT",
    "SAMPLE",
    "ACTIVATION",
    "GRADIENT",
    "OPTIMIZER_STATE",
    "METADATA",
    "GENERAL",
];

/// The attributes of a `ReplicateConfig` of the caller, as a call got them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicateSettings {
    /// The number of memory replicas.
    pub replica_num: u64,
    /// The number of replicas on NVMe-oF targets; must be 0.
    pub nof_replica_num: u64,
    /// The number of replicas on a distributed file system; must be 0.
    pub dfs_replica_num: u64,
    /// The position in [`SOFT_PIN_ACTIONS`].
    pub soft_pin_action: u8,
    /// The duration of a soft pin; `None` is the master's default.
    pub soft_pin_ttl_ms: Option<u64>,
    /// Whether the object is soft-pinned until no client has accessed it for the master's default time.
    pub with_soft_pin: bool,
    /// Whether the pool never evicts the object.
    pub with_hard_pin: bool,
    /// The segments to try first, in order.
    pub preferred_segments: Vec<String>,
    /// The segment to try first. Unless empty, it wins over the list.
    pub preferred_segment: String,
    /// Without effect.
    pub preferred_nof_segments: Vec<String>,
    /// Whether a batch puts its objects on one segment.
    pub prefer_alloc_in_same_node: bool,
    /// The position in [`DATA_TYPES`].
    pub data_type: u8,
    /// The group of each key of a put.
    pub group_ids: Option<Vec<String>>,
}

impl Default for ReplicateSettings {
    fn default() -> Self {
        Self {
            replica_num: 1,
            nof_replica_num: 0,
            dfs_replica_num: 0,
            soft_pin_action: PRESERVE,
            soft_pin_ttl_ms: None,
            with_soft_pin: false,
            with_hard_pin: false,
            preferred_segments: Vec::new(),
            preferred_segment: String::new(),
            preferred_nof_segments: Vec::new(),
            prefer_alloc_in_same_node: false,
            data_type: 0,
            group_ids: None,
        }
    }
}

impl ReplicateSettings {
    /// The configuration for a put of one object.
    ///
    /// # Errors
    /// `InvalidParams` if attributes contradict each other, or ask for what this put cannot do.
    pub fn for_one(&self, operation: &str) -> Result<ReplicateConfig<'_>, ErrorCode> {
        if self.prefer_alloc_in_same_node {
            return Err(refuse(operation, "prefer_alloc_in_same_node is for batches"));
        }
        self.for_many(operation, 1)
    }

    /// The configuration for a put of `keys` objects.
    ///
    /// # Errors
    /// As [`ReplicateSettings::for_one`].
    pub fn for_many(&self, operation: &str, keys: usize) -> Result<ReplicateConfig<'_>, ErrorCode> {
        if self.nof_replica_num > 0 || self.dfs_replica_num > 0 {
            return Err(refuse(operation, "there are only memory replicas"));
        }
        let Some(replica_num) = u32::try_from(self.replica_num).ok().filter(|&count| count > 0)
        else {
            return Err(refuse(operation, "replica_num is out of range"));
        };
        let groups = self.group_ids.as_ref().map_or(0, Vec::len);
        if groups != 0 && groups != keys {
            return Err(refuse(operation, "group_ids needs one id per key"));
        }
        Ok(ReplicateConfig {
            replica_num,
            soft_pin: self.soft_pin(operation)?,
            hard_pin: self.with_hard_pin,
            preferred_segments: self.preferred(),
            excluded_segments: Vec::new(),
            same_node: self.prefer_alloc_in_same_node,
            data_type: self.data_type,
        })
    }

    /// The group of the object at this position of a batch; empty if it has none.
    #[must_use]
    pub fn group(&self, position: usize) -> &str {
        self.group_ids.as_ref().and_then(|ids| ids.get(position)).map_or("", String::as_str)
    }

    fn soft_pin(&self, operation: &str) -> Result<SoftPin, ErrorCode> {
        match (self.soft_pin_action, self.soft_pin_ttl_ms) {
            (ENABLE, ttl_ms) => Ok(SoftPin::Enable { ttl_ms }),
            (_, Some(_)) => Err(refuse(operation, "soft_pin_ttl_ms needs SoftPinAction.ENABLE")),
            (DISABLE, None) => Ok(SoftPin::Disable),
            (_, None) if self.with_soft_pin => Ok(SoftPin::Sliding),
            (_, None) => Ok(SoftPin::Preserve),
        }
    }

    /// The segments to try first. `preferred_segment` wins over the list.
    fn preferred(&self) -> Vec<&str> {
        if self.preferred_segment.is_empty() {
            self.preferred_segments.iter().map(String::as_str).collect()
        } else {
            vec![&self.preferred_segment]
        }
    }
}

fn refuse(operation: &str, reason: &str) -> ErrorCode {
    log::warn(operation, reason, format_args!("{reason}"));
    ErrorCode::InvalidParams
}

impl fmt::Display for ReplicateSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = SOFT_PIN_ACTIONS[usize::from(self.soft_pin_action)];
        write!(f, "ReplicateConfig: {{ replica_num: {}", self.replica_num)?;
        write!(f, ", nof_replica_num: {}", self.nof_replica_num)?;
        write!(f, ", dfs_replica_num: {}", self.dfs_replica_num)?;
        write!(f, ", soft_pin_action: {action}, soft_pin_ttl_ms: ")?;
        match self.soft_pin_ttl_ms {
            Some(ttl_ms) => write!(f, "{ttl_ms}")?,
            None => write!(f, "None")?,
        }
        write!(f, ", with_soft_pin: {}", self.with_soft_pin)?;
        write!(f, ", with_hard_pin: {}", self.with_hard_pin)?;
        write!(f, ", preferred_segments: {:?}", self.preferred_segments)?;
        write!(f, ", preferred_segment: {:?}", self.preferred_segment)?;
        write!(f, ", preferred_nof_segments: {:?}", self.preferred_nof_segments)?;
        write!(f, ", prefer_alloc_in_same_node: {}", self.prefer_alloc_in_same_node)?;
        write!(f, ", data_type: {}, group_ids: ", DATA_TYPES[usize::from(self.data_type)])?;
        match &self.group_ids {
            Some(ids) => write!(f, "{ids:?} }}"),
            None => write!(f, "None }}"),
        }
    }
}
