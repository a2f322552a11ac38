use crate::ErrorCode;

/// The meaning of an error code that a call returned, and how to react.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorAdvice {
    /// The meaning, in one sentence.
    pub meaning: &'static str,
    /// The action for a caller or an operator.
    pub remedy: &'static str,
}

const fn row(
    code: ErrorCode,
    meaning: &'static str,
    remedy: &'static str,
) -> (ErrorCode, ErrorAdvice) {
    (code, ErrorAdvice { meaning, remedy })
}

/// Every code that a call of this store returns. A test keeps `docs/errors.md` equal to this table.
const ROWS: &[(ErrorCode, ErrorAdvice)] = &[
    row(ErrorCode::Ok, "The call did what it was asked for.", "Nothing."),
    row(
        ErrorCode::InternalError,
        "The system refused something, or `setup` failed for another reason than its arguments.",
        "Read the log line before it: it names the cause.",
    ),
    row(
        ErrorCode::BufferOverflow,
        "No memory could be had for the bytes of an object, or an answer would not fit into a frame.",
        "Get fewer or smaller objects at a time.",
    ),
    row(
        ErrorCode::SegmentNotFound,
        "No mounted segment has this name or id.",
        "Look at `/get_all_segments` of the master.",
    ),
    row(
        ErrorCode::SegmentAlreadyExists,
        "These bytes are lent already, or the segment is mounted with other properties.",
        "Unmount it first, or lend another file.",
    ),
    row(
        ErrorCode::ClientNotFound,
        "The master does not know this client.",
        "Set the store up again.",
    ),
    row(
        ErrorCode::NoAvailableHandle,
        "The pool has no room for the object, and nothing more can be evicted.",
        "Look at the log of this process, which names the cause. If no node is in sight, start one. If the object is \
                 longer than the pool, lend more. Otherwise all else is leased, pinned or unfinished: wait for a lease \
                 (`--default_kv_lease_ttl`), pin less, or lend more.",
    ),
    row(
        ErrorCode::InvalidVersion,
        "The two sides speak different protocols, or what was asked for belongs to an older leader.",
        "Use one version of the package everywhere; try again.",
    ),
    row(
        ErrorCode::InvalidKey,
        "A key is empty or has more than 4096 bytes of UTF-8.",
        "Use keys of 1 to 4096 bytes.",
    ),
    row(
        ErrorCode::InvalidParams,
        "An argument is wrong: an empty value, lists of different lengths, a buffer that is too small or not \
                 registered, no local buffer for a copying call, a store that is not set up.",
        "Look at the arguments; a log line names the one that `setup` refused.",
    ),
    row(
        ErrorCode::IllegalClient,
        "The auth token is wrong, or another client began what this one wants to end.",
        "Give every process the same `MOONCAKE_AUTH_TOKEN` or `MOONCAKE_AUTH_TOKEN_FILE`.",
    ),
    row(
        ErrorCode::InvalidWrite,
        "The parts that were written overlap, leave gaps, or lie outside of their object.",
        "Write every byte of a put session once before its end.",
    ),
    row(
        ErrorCode::InvalidRead,
        "A range lies outside of its object.",
        "Ask `get_size` for the length.",
    ),
    row(
        ErrorCode::ReplicaIsNotReady,
        "A put of this key has not ended.",
        "Wait; after `--put_start_discard_timeout_sec` (30 s) the key is free again.",
    ),
    row(
        ErrorCode::ObjectNotFound,
        "There is no such object: never put, removed, evicted, or lost with its node.",
        "It is a miss: compute it again.",
    ),
    row(
        ErrorCode::ObjectAlreadyExists,
        "The key is taken. Puts answer 0 then; only a put session says it.",
        "Leave the object as it is, or upsert it.",
    ),
    row(
        ErrorCode::ObjectHasLease,
        "A reader holds a lease on the object.",
        "Wait for `--default_kv_lease_ttl` (5 s), or force the removal.",
    ),
    row(
        ErrorCode::LeaseExpired,
        "The lease of a session ended before it was used.",
        "Start the session again, or lengthen `--default_kv_lease_ttl`.",
    ),
    row(
        ErrorCode::ObjectHasReplicationTask,
        "The object is being copied or moved.",
        "Try again when the task has ended.",
    ),
    row(
        ErrorCode::ReplicaNotFound,
        "The object has no replica there.",
        "Look at `get_replica_desc`.",
    ),
    row(
        ErrorCode::ReplicaAlreadyExists,
        "The object has a replica there already.",
        "Nothing is to be done.",
    ),
    row(
        ErrorCode::ReplicaIsGone,
        "The replica went while it was copied.",
        "Create the task again.",
    ),
    row(
        ErrorCode::ObjectReplicaBusy,
        "Newer writes of the same key or range come faster than this one gets on.",
        "Try again.",
    ),
    row(
        ErrorCode::TransferFail,
        "No replica could be read, or a node could not be written to.",
        "Look at the node, its address and the network between: `mooncake doctor`.",
    ),
    row(
        ErrorCode::ChecksumMismatch,
        "The bytes that arrived are not those that were sent.",
        "Try again; look at the network card and its driver.",
    ),
    row(
        ErrorCode::RpcFail,
        "The master could not be reached.",
        "Look at its `/health`, its address and its port.",
    ),
    row(
        ErrorCode::RpcTimeout,
        "The master did not answer in time: whether it acted is not known.",
        "Look at its `/health`; ask whether the object is there before trying again.",
    ),
    row(
        ErrorCode::UnavailableInCurrentStatus,
        "The master takes no puts or removals now: it has just begun to lead and waits for the nodes that it \
                 remembers, or its coordinator does not answer; or a store is closed.",
        "Look at the log of this process, or at `mooncake status`: both name the cause. Try again in a few seconds; \
                 `master_members_missing` counts the nodes that it waits for.",
    ),
    row(
        ErrorCode::UnavailableInCurrentMode,
        "This master does not lead.",
        "Ask the one that `/leader` names.",
    ),
    row(
        ErrorCode::NotSupported,
        "This build cannot do that.",
        "See `docs/switching.md` for what is missing.",
    ),
    row(ErrorCode::FileNotFound, "The file to be lent is not there.", "Look at the path."),
    row(
        ErrorCode::FileOpenFail,
        "The file to be lent cannot be opened.",
        "Look at its permissions; a log line says what the system said.",
    ),
    row(
        ErrorCode::TaskNotFound,
        "The master knows no such task: it ended long ago, or another master leads now.",
        "Create it again if its work is not done.",
    ),
    row(
        ErrorCode::TaskPendingLimitExceeded,
        "`--max_total_pending_tasks` copies and moves wait already.",
        "Wait until some have ended.",
    ),
    row(
        ErrorCode::JobNotFound,
        "The master that leads now knows of no such drain job.",
        "Create it again: what was moved stays moved.",
    ),
    row(
        ErrorCode::PersistentFail,
        "The membership record cannot be written: its disk or coordinator refuses.",
        "Look at the master's log and `master_membership_record_late_seconds`.",
    ),
    row(
        ErrorCode::TenantQuotaExceeded,
        "The tenant has used up its quota, and nothing more of it can be evicted; or the object is longer than the quota.",
        "Wait for a lease, pin less, or raise the quota: see `docs/tenants.md`.",
    ),
    row(
        ErrorCode::TenantNotRegistered,
        "The master wants a quota for each tenant (`--enable_multi_tenants`), and this tenant has none.",
        "Give it one, or name another `tenant_id`: see `docs/tenants.md`.",
    ),
    row(
        ErrorCode::TenantNotEmpty,
        "The tenant still has objects in memory, so its quota stays.",
        "Remove its objects first, with `/api/v1/remove_all?tenant_id=`.",
    ),
    row(
        ErrorCode::PermissionDenied,
        "The caller's auth token does not allow this, or the master has not let it use a range of a node. The C++ package has no such code.",
        "Give it a token whose line in `--auth_roles_file` names the right.",
    ),
];

impl ErrorCode {
    /// The advice for this code. `None` if only the C++ store returns it.
    #[must_use]
    pub fn advice(self) -> Option<ErrorAdvice> {
        ROWS.iter().find(|(code, _)| *code == self).map(|(_, advice)| *advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_that_callers_meet_is_explained() {
        let known = [0, -200, -600, -703, -704, -705, -706, -707, -800, -900, -901, -1010, -1011];
        for number in known {
            let code = ErrorCode::from_number(number).expect("it is a code");
            assert!(code.advice().is_some(), "{code}");
        }
        assert_eq!(ErrorCode::OplogEntryNotFound.advice(), None);
    }

    #[test]
    fn the_limits_that_the_text_names_are_those_that_hold() {
        let advice = ErrorCode::InvalidKey.advice().expect("it is explained");
        assert!(advice.meaning.contains(&format!("{} bytes", crate::limits::MAX_KEY_BYTES)));
    }
}
