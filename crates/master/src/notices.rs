//! What the state machine did by itself, as lines of the log.

use mooncake_meta::Notice;
use tracing::info;

/// Logs one notice.
pub(crate) fn log(notice: &Notice) {
    match notice {
        Notice::RepairBegins { objects } => {
            info!(objects, "objects lack replicas that were lost: they are made anew");
        }
        Notice::RepairEnds { replicas, bytes, failures, left: 0, took_ms } => {
            info!(replicas, bytes, failures, took_ms, "all lost replicas were made anew");
        }
        Notice::RepairEnds { replicas, bytes, failures, left, took_ms } => {
            info!(
                replicas,
                bytes,
                failures,
                left,
                took_ms,
                "no more lost replicas can be made anew for now: there is no room, or nothing to copy from"
            );
        }
        Notice::Hot { key, replicas, target: Some(target) } => {
            info!(key, replicas, %target, "an object is read often: it gets another replica");
        }
        Notice::Hot { key, replicas, target: None } => {
            info!(key, replicas, "an object is read often: it would get another replica");
        }
    }
}
