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
    /// The session of each key of a put, which KV events tell.
    pub session_ids: Option<Vec<String>>,
    /// Without effect; one id per key.
    pub residency_affinity_ids: Option<Vec<String>>,
    /// Without effect.
    pub preferred_hca_names: Option<Vec<String>>,
    /// Without effect; one list per key.
    pub per_key_preferred_hca_names: Option<Vec<Vec<String>>>,
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
            session_ids: None,
            residency_affinity_ids: None,
            preferred_hca_names: None,
            per_key_preferred_hca_names: None,
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
        if let Some(name) = self.list_of_other_length(keys) {
            return Err(refuse(operation, name));
        }
        self.warn_of_what_has_no_effect(operation);
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
        id_at(self.group_ids.as_deref(), position)
    }

    /// The session of the object at this position of a batch; empty if it has none.
    #[must_use]
    pub fn session(&self, position: usize) -> &str {
        id_at(self.session_ids.as_deref(), position)
    }

    /// What is wrong with a list that must have one item per key, or be empty.
    fn list_of_other_length(&self, keys: usize) -> Option<&'static str> {
        fn len<T>(list: Option<&Vec<T>>) -> usize {
            list.map_or(0, Vec::len)
        }
        let lists = [
            (len(self.group_ids.as_ref()), "group_ids needs one id per key"),
            (len(self.session_ids.as_ref()), "session_ids needs one id per key"),
            (
                len(self.residency_affinity_ids.as_ref()),
                "residency_affinity_ids needs one id per key",
            ),
            (
                len(self.per_key_preferred_hca_names.as_ref()),
                "per_key_preferred_hca_names needs one list per key",
            ),
        ];
        lists.into_iter().find(|&(len, _)| len != 0 && len != keys).map(|(_, reason)| reason)
    }

    fn warn_of_what_has_no_effect(&self, operation: &str) {
        let no_cards = "no network card is chosen: bytes go by TCP, as the system routes them";
        let given = [
            (
                self.residency_affinity_ids.is_some(),
                "residency_affinity_ids",
                "objects that belong together are named by group_ids",
            ),
            (self.preferred_hca_names.is_some(), "preferred_hca_names", no_cards),
            (self.per_key_preferred_hca_names.is_some(), "per_key_preferred_hca_names", no_cards),
        ];
        for (_, name, instead) in given.into_iter().filter(|(is_given, ..)| *is_given) {
            log::warn(
                operation,
                name,
                format_args!("{name} has no effect in this build ({instead})"),
            );
        }
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

fn id_at(ids: Option<&[String]>, position: usize) -> &str {
    ids.and_then(|ids| ids.get(position)).map_or("", String::as_str)
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
            Some(ids) => write!(f, "{ids:?}")?,
            None => write!(f, "None")?,
        }
        for (name, ids) in [
            ("session_ids", &self.session_ids),
            ("residency_affinity_ids", &self.residency_affinity_ids),
            ("preferred_hca_names", &self.preferred_hca_names),
        ] {
            if let Some(ids) = ids {
                write!(f, ", {name}: {ids:?}")?;
            }
        }
        match &self.per_key_preferred_hca_names {
            Some(names) => write!(f, ", per_key_preferred_hca_names: {names:?} }}"),
            None => write!(f, " }}"),
        }
    }
}
