//! Replicas in the words of the service.

use mooncake_ops::{ObjectLocation, ReplicaLocation};

use crate::generated::buf_handle::BufStatus;
use crate::generated::replica_info::ReplicaStatus;
use crate::generated::{BufHandle, ObjectReplicaList, ReplicaInfo};

/// The replicas of an object, which can be read.
pub(crate) fn complete(location: &ObjectLocation) -> Vec<ReplicaInfo> {
    let told = |replica| told(replica, ReplicaStatus::Complete, BufStatus::Complete);
    location.replicas.iter().map(told).collect()
}

/// The replicas that were granted to a put.
pub(crate) fn granted(replicas: &[ReplicaLocation]) -> Vec<ReplicaInfo> {
    let told = |replica| told(replica, ReplicaStatus::Processing, BufStatus::Init);
    replicas.iter().map(told).collect()
}

/// As [`complete`], for a map of objects.
pub(crate) fn list(location: &ObjectLocation) -> ObjectReplicaList {
    ObjectReplicaList { replica_list: complete(location) }
}

fn told(replica: &ReplicaLocation, status: ReplicaStatus, of_range: BufStatus) -> ReplicaInfo {
    let handles = replica.stripes.iter().map(|stripe| BufHandle {
        // The low half.
        segment_name: stripe.segment.id.0 as u64,
        size: stripe.len,
        buffer: stripe.offset,
        status: of_range.into(),
        segment: Some(stripe.segment.name.to_string()),
        endpoint: Some(stripe.segment.endpoint.to_string()),
    });
    ReplicaInfo { handles: handles.collect(), status: status.into() }
}
