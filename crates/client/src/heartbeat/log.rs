use super::master_session::TurnOutcome;
use crate::membership::Membership;

pub(super) fn change(turn: &TurnOutcome, was_well: bool, well: bool) {
    match turn {
        TurnOutcome::NotConnected(error) => tracing::debug!(%error, "no connection to the master"),
        TurnOutcome::NotAnswered(error) if was_well => {
            tracing::warn!(%error, "the master does not answer");
        }
        _ if well && !was_well => tracing::info!("the master answers again"),
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

pub(super) fn mount_refusal(membership: &Membership) {
    if let Some((segment, code)) = membership.mount_refusal() {
        tracing::warn!(segment = segment.name, %code, "the master refused a segment");
    }
}
