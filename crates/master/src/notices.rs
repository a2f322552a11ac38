//! Logs what the state machine did on its own.

use std::time::Instant;

use mooncake_meta::Notice;
use mooncake_types::{LogLimiter, ShownKey};
use tracing::{info, warn};

/// Logs one notice.
pub(crate) fn log(notice: &Notice) {
    match notice {
        Notice::RepairBegins { objects } => {
            info!(objects, "objects have lost replicas: repair begins");
        }
        Notice::RepairEnds { replicas, bytes, failures, left: 0, took_ms } => {
            info!(replicas, bytes, failures, took_ms, "all lost replicas were repaired");
        }
        Notice::RepairEnds { replicas, bytes, failures, left, took_ms } => {
            warn!(
                replicas,
                bytes,
                failures,
                left,
                took_ms,
                "no more lost replicas can be repaired for now: there is no room, or no replica to copy from"
            );
        }
        Notice::SegmentJoins { name, endpoint, len } => {
            info!(segment = %name, %endpoint, bytes = len, "a segment joins the pool");
        }
        Notice::SegmentGoes { name, replicas, bytes, is_lost: false } => {
            info!(segment = %name, replicas, bytes, "a segment leaves the pool");
        }
        Notice::SegmentGoes { name, replicas, bytes, is_lost: true } => {
            warn!(
                segment = %name,
                replicas,
                bytes,
                "a segment is lost: its node was not heard of for too long, or came back without it; objects that \
                 have no other replica are gone"
            );
        }
        Notice::SightLost { name, segments } => {
            warn!(
                segment = %name,
                segments,
                "a node is out of sight: what it holds cannot be read until it is heard of again"
            );
        }
        Notice::SightRegained { name, segments } => {
            info!(segment = %name, segments, "a node is in sight again, with all that it holds");
        }
        Notice::TooMuchToDrop { name, tombstones } => {
            warn!(
                segment = %name,
                tombstones,
                "a node has too much to drop: it gets no new objects until it has dropped half of it"
            );
        }
        Notice::Sinking { deferred, forced: 0, failed: 0 } => {
            info!("[EVICT] {deferred} objects deferred for disk offload");
        }
        Notice::Sinking { deferred, forced, failed } => log_slow_disks(*deferred, *forced, *failed),
        // Logged where troubles are remembered.
        Notice::OffloadFailed { .. } | Notice::SegmentFailed { .. } => {}
        Notice::Hot { key, replicas, target: Some(target) } => {
            info!(key = %ShownKey(key), replicas, %target, "an object is read often: it gets another replica");
        }
        Notice::Hot { key, replicas, target: None } => {
            info!(key = %ShownKey(key), replicas, "an object is read often: it would get another replica");
        }
    }
}

fn log_slow_disks(deferred: u64, forced: u64, failed: u64) {
    static SLOW_DISKS: LogLimiter<()> = LogLimiter::new();
    if let Some(further) = SLOW_DISKS.admit((), Instant::now()) {
        warn!(
            forced,
            failed,
            further,
            "[EVICT] {deferred} objects deferred for disk offload; some were evicted without a copy"
        );
    }
}
