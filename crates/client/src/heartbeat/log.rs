use mooncake_types::{ErrorCode, SegmentId};

use super::master_session::TurnOutcome;
use crate::membership::Membership;

/// Logs when the master stops answering, and when it answers again. `is_silent` says which came last.
pub(super) fn change(turn: &TurnOutcome, is_silent: &mut bool, well: bool) {
    match turn {
        TurnOutcome::NotConnected(error) => tracing::debug!(%error, "no connection to the master"),
        TurnOutcome::NotAnswered(error) if !*is_silent => {
            tracing::warn!(%error, "the master does not answer");
            *is_silent = true;
        }
        _ if well && *is_silent => {
            tracing::info!("the master answers again");
            *is_silent = false;
        }
        _ => {}
    }
}

pub(super) fn reach(membership: &Membership, is_unreached: bool) {
    let endpoint = membership.endpoint().unwrap_or_default();
    match is_unreached {
        true => tracing::warn!(
            endpoint,
            "this node cannot be reached at the address that it tells others: nothing is put here until it can"
        ),
        false => tracing::info!(endpoint, "this node can be reached now: objects are put here"),
    }
}

/// Logs why the master refuses a segment, if that is not what was `told` last.
pub(super) fn mount_refusal(membership: &Membership, told: &mut Option<(SegmentId, ErrorCode)>) {
    let refusal = membership.mount_refusal();
    let known = refusal.map(|(segment, code)| (segment.id, code));
    if let Some((segment, code)) = refusal
        && known != *told
    {
        tracing::warn!(segment = segment.name, %code, "the master refused a segment");
    }
    *told = known;
}
