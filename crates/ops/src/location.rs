use std::sync::Arc;

use mooncake_types::{ErrorCode, Located, Medium, Placement, SegmentAddress, Version};

use crate::placements::{placements_are_whole, replicas};

/// Where one object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLocation {
    /// The version that lies there.
    pub version: Version,
    /// The object's length in bytes.
    pub len: u64,
    /// Its complete replicas, at least one.
    pub replicas: Vec<ReplicaLocation>,
}

/// Where one replica of an object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLocation {
    /// The replica's number, from 0; numbers of replicas that were lost are missing.
    pub number: u32,
    /// Its ranges in the order of the object's bytes; their lengths add up to the object's.
    pub stripes: Vec<Stripe>,
}

/// One range of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// The segment, its name and its node.
    pub segment: SegmentAddress,
    /// Where the range starts in its segment, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl ReplicaLocation {
    /// The replicas that these placements make up. They were found to be whole.
    pub(crate) fn all(placements: &[Placement], segments: &[SegmentAddress]) -> Vec<Self> {
        let stripe = |range: &Placement| Stripe {
            segment: segments[range.segment as usize].clone(),
            offset: range.offset,
            len: range.len,
        };
        let replica = |ranges: &[Placement]| Self {
            number: ranges[0].replica,
            stripes: ranges.iter().map(stripe).collect(),
        };
        replicas(placements).map(replica).collect()
    }

    /// Its length in bytes, which is the object's.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.len).sum()
    }

    /// Its medium: a disk, if one of its stripes lies on a disk.
    #[must_use]
    pub fn medium(&self) -> Medium {
        self.stripes.iter().map(|stripe| stripe.segment.medium).max().unwrap_or_default()
    }
}

impl ObjectLocation {
    /// The location that a reply of the master names.
    ///
    /// # Errors
    /// [`ErrorCode::InternalError`] if the placements are not whole replicas.
    pub fn from_located(located: &Located, segments: &[SegmentAddress]) -> Result<Self, ErrorCode> {
        if !placements_are_whole(&located.placements, segments, located.len) {
            return Err(ErrorCode::InternalError);
        }
        let replicas = ReplicaLocation::all(&located.placements, segments);
        Ok(Self { version: located.version, len: located.len, replicas })
    }

    /// The names of the segments that hold a part of the object, in order of replicas.
    pub fn segment_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.replicas.iter().flat_map(|replica| &replica.stripes).map(|stripe| &stripe.segment.name)
    }
}
