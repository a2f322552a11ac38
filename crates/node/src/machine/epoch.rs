use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, ErrorCode, Version};

/// Whether a write may begin that the leader of `epoch` granted. `seen` is the epoch that the node's own master
/// named. The node believes no other source: otherwise any peer could mislead it.
///
/// # Errors
/// [`ErrorCode::InvalidVersion`] if a newer leader was named, or the grant has a newer epoch than `epoch`.
/// [`ErrorCode::UNKNOWN_LEADER`] if the node's master has not named this leader.
pub(super) fn check_epoch(seen: Epoch, epoch: Epoch, grant: Version) -> Result<(), ErrorCode> {
    if epoch > seen {
        return Err(ErrorCode::UNKNOWN_LEADER);
    }
    let is_old = epoch < seen && !is_broken(Rule::OldLeadersAreRefused);
    match is_old || grant.epoch > epoch {
        true => Err(ErrorCode::InvalidVersion),
        false => Ok(()),
    }
}

/// Whether a drop may be done that the leader of `grant` named. `seen` is the epoch that the node's own master named.
/// Once there is a later leader, only that one may name drops: it may know the entry, and may have had it copied.
///
/// # Errors
/// As [`check_epoch`].
pub(super) fn check_drop(seen: Epoch, grant: Version) -> Result<(), ErrorCode> {
    if grant.epoch > seen {
        return Err(ErrorCode::UNKNOWN_LEADER);
    }
    match grant.epoch == seen || is_broken(Rule::OldLeadersDropsAreRefused) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidVersion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_is_done_only_for_the_leader_that_the_node_obeys() {
        let named_by = |epoch| Version { epoch: Epoch(epoch), counter: 1 };
        assert_eq!(check_drop(Epoch(5), named_by(5)), Ok(()));
        assert_eq!(check_drop(Epoch(5), named_by(4)), Err(ErrorCode::InvalidVersion));
        assert_eq!(check_drop(Epoch(5), named_by(6)), Err(ErrorCode::UNKNOWN_LEADER));
    }
}
