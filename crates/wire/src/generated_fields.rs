// Written by `crates/protogen` from `proto/mooncake.proto`.

use mooncake_types::limits;

use crate::field::Field;

/// The most of these fields that one message has.
pub(crate) const MOST_FIELDS: usize = 26;

/// `BegunResponse`.
pub(crate) mod begun_response {
    use super::*;
    pub(crate) const REMOTE_MEMORIES: Field = Field { number: 2, name: "remote_memories", limit: limits::MAX_BEGIN_RANGES as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[REMOTE_MEMORIES];
}

/// `ClearReplicasRequest`.
pub(crate) mod clear_replicas_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `CreateTaskRequest`.
pub(crate) mod create_task_request {
    use super::*;
    pub(crate) const TARGET_SEGMENTS: Field = Field { number: 4, name: "target_segments", limit: limits::MAX_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[TARGET_SEGMENTS];
}

/// `DrainSegmentsResponse`.
pub(crate) mod drain_segments_response {
    use super::*;
    pub(crate) const SEGMENT_NAMES: Field = Field { number: 5, name: "segment_names", limit: limits::MAX_DRAIN_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[SEGMENT_NAMES];
}

/// `DummyRequest`.
pub(crate) mod dummy_request {
    use super::*;
    pub(crate) const ATTACH: Field = Field { number: 1, name: "attach", limit: 1, fields: &[] };
    pub(crate) const SHARE_MEMORY: Field = Field { number: 2, name: "share_memory", limit: 1, fields: &[] };
    pub(crate) const UNSHARE_MEMORY: Field = Field { number: 3, name: "unshare_memory", limit: 1, fields: &[] };
    pub(crate) const HEALTH: Field = Field { number: 4, name: "health", limit: 1, fields: &[] };
    pub(crate) const PUT: Field = Field { number: 5, name: "put", limit: 1, fields: put_pieces_request::FIELDS };
    pub(crate) const GET: Field = Field { number: 6, name: "get", limit: 1, fields: get_pieces_request::FIELDS };
    pub(crate) const GET_FRAGMENTS: Field = Field { number: 7, name: "get_fragments", limit: 1, fields: get_pieces_request::FIELDS };
    pub(crate) const EXIST_KEY: Field = Field { number: 8, name: "exist_key", limit: 1, fields: exist_key_request::FIELDS };
    pub(crate) const LOCATE: Field = Field { number: 9, name: "locate", limit: 1, fields: locate_request::FIELDS };
    pub(crate) const REMOVE: Field = Field { number: 10, name: "remove", limit: 1, fields: remove_request::FIELDS };
    pub(crate) const REMOVE_MATCHING: Field = Field { number: 11, name: "remove_matching", limit: 1, fields: &[] };
    pub(crate) const LIST: Field = Field { number: 12, name: "list", limit: 1, fields: &[] };
    pub(crate) const CLEAR_REPLICAS: Field = Field { number: 13, name: "clear_replicas", limit: 1, fields: clear_replicas_request::FIELDS };
    pub(crate) const PREFIX_LEN: Field = Field { number: 14, name: "prefix_len", limit: 1, fields: prefix_len_request::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[ATTACH, SHARE_MEMORY, UNSHARE_MEMORY, HEALTH, PUT, GET, GET_FRAGMENTS, EXIST_KEY, LOCATE, REMOVE, REMOVE_MATCHING, LIST, CLEAR_REPLICAS, PREFIX_LEN];
}

/// `DummyResponse`.
pub(crate) mod dummy_response {
    use super::*;
    pub(crate) const ATTACHED: Field = Field { number: 1, name: "attached", limit: 1, fields: &[] };
    pub(crate) const MEMORY_SHARED: Field = Field { number: 2, name: "memory_shared", limit: 1, fields: &[] };
    pub(crate) const STATUSES: Field = Field { number: 3, name: "statuses", limit: 1, fields: &[] };
    pub(crate) const HEALTH: Field = Field { number: 4, name: "health", limit: 1, fields: &[] };
    pub(crate) const LENGTHS: Field = Field { number: 5, name: "lengths", limit: 1, fields: &[] };
    pub(crate) const EXIST: Field = Field { number: 6, name: "exist", limit: 1, fields: &[] };
    pub(crate) const LOCATED: Field = Field { number: 7, name: "located", limit: 1, fields: get_replica_list_response::FIELDS };
    pub(crate) const REMOVED: Field = Field { number: 8, name: "removed", limit: 1, fields: &[] };
    pub(crate) const LISTED: Field = Field { number: 9, name: "listed", limit: 1, fields: list_response::FIELDS };
    pub(crate) const REFUSED: Field = Field { number: 10, name: "refused", limit: 1, fields: &[] };
    pub(crate) const PREFIX_LEN: Field = Field { number: 11, name: "prefix_len", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[ATTACHED, MEMORY_SHARED, STATUSES, HEALTH, LENGTHS, EXIST, LOCATED, REMOVED, LISTED, REFUSED, PREFIX_LEN];
}

/// `ExistKeyRequest`.
pub(crate) mod exist_key_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `FetchTasksResponse`.
pub(crate) mod fetch_tasks_response {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_FETCHED_TASKS as usize, fields: &[] };
    pub(crate) const REPLICA_LISTS: Field = Field { number: 3, name: "replica_lists", limit: 1, fields: replica_lists::FIELDS };
    pub(crate) const ATTRIBUTES: Field = Field { number: 5, name: "attributes", limit: limits::MAX_FETCHED_TASKS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, REPLICA_LISTS, ATTRIBUTES];
}

/// `FollowResponse`.
pub(crate) mod follow_response {
    use super::*;
    pub(crate) const ENTRIES: Field = Field { number: 1, name: "entries", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[ENTRIES];
}

/// `GetPiecesRequest`.
pub(crate) mod get_pieces_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const PIECES: Field = Field { number: 2, name: "pieces", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, PIECES];
}

/// `GetReplicaListRequest`.
pub(crate) mod get_replica_list_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `GetReplicaListResponse`.
pub(crate) mod get_replica_list_response {
    use super::*;
    pub(crate) const REPLICA_LISTS: Field = Field { number: 1, name: "replica_lists", limit: 1, fields: replica_lists::FIELDS };
    pub(crate) const PREDECESSORS: Field = Field { number: 5, name: "predecessors", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[REPLICA_LISTS, PREDECESSORS];
}

/// `LeaveRequest`.
pub(crate) mod leave_request {
    use super::*;
    pub(crate) const READS: Field = Field { number: 1, name: "reads", limit: 1, fields: read_report::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[READS];
}

/// `ListResponse`.
pub(crate) mod list_response {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_DUMMY_LISTED_OBJECTS as usize, fields: &[] };
    pub(crate) const REPLICA_LISTS: Field = Field { number: 2, name: "replica_lists", limit: 1, fields: replica_lists::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[KEYS, REPLICA_LISTS];
}

/// `ListSegmentsResponse`.
pub(crate) mod list_segments_response {
    use super::*;
    pub(crate) const SEGMENTS: Field = Field { number: 1, name: "segments", limit: limits::MAX_LISTED_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[SEGMENTS];
}

/// `LocateRequest`.
pub(crate) mod locate_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `MountSegmentRequest`.
pub(crate) mod mount_segment_request {
    use super::*;
    pub(crate) const DOMAINS: Field = Field { number: 9, name: "domains", limit: limits::MAX_DOMAINS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[DOMAINS];
}

/// `PingRequest`.
pub(crate) mod ping_request {
    use super::*;
    pub(crate) const READS: Field = Field { number: 3, name: "reads", limit: 1, fields: read_report::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[READS];
}

/// `PrefetchRequest`.
pub(crate) mod prefetch_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `PrefixLenRequest`.
pub(crate) mod prefix_len_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `PutEndRequest`.
pub(crate) mod put_end_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `PutPiecesRequest`.
pub(crate) mod put_pieces_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const PIECES: Field = Field { number: 2, name: "pieces", limit: 1, fields: &[] };
    pub(crate) const CONFIG: Field = Field { number: 3, name: "config", limit: 1, fields: replicate_config::FIELDS };
    pub(crate) const GROUPS: Field = Field { number: 5, name: "groups", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const SESSIONS: Field = Field { number: 6, name: "sessions", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, PIECES, CONFIG, GROUPS, SESSIONS];
}

/// `PutRevokeRequest`.
pub(crate) mod put_revoke_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `PutStartRequest`.
pub(crate) mod put_start_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const CONFIG: Field = Field { number: 3, name: "config", limit: 1, fields: replicate_config::FIELDS };
    pub(crate) const GROUPS: Field = Field { number: 5, name: "groups", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const SESSIONS: Field = Field { number: 6, name: "sessions", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, CONFIG, GROUPS, SESSIONS];
}

/// `PutStartResponse`.
pub(crate) mod put_start_response {
    use super::*;
    pub(crate) const REPLICA_LISTS: Field = Field { number: 1, name: "replica_lists", limit: 1, fields: replica_lists::FIELDS };
    pub(crate) const ATTRIBUTES: Field = Field { number: 2, name: "attributes", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[REPLICA_LISTS, ATTRIBUTES];
}

/// `ReadReport`.
pub(crate) mod read_report {
    use super::*;
    pub(crate) const COUNTS: Field = Field { number: 2, name: "counts", limit: 1, fields: &[] };
    pub(crate) const CONFIRMED: Field = Field { number: 3, name: "confirmed", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[COUNTS, CONFIRMED];
}

/// `ReadRequest`.
pub(crate) mod read_request {
    use super::*;
    pub(crate) const STRIPES: Field = Field { number: 6, name: "stripes", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[STRIPES];
}

/// `RemainingResponse`.
pub(crate) mod remaining_response {
    use super::*;
    pub(crate) const REMAINS: Field = Field { number: 2, name: "remains", limit: 1, fields: remains::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[REMAINS];
}

/// `Remains`.
pub(crate) mod remains {
    use super::*;
    pub(crate) const SEGMENTS: Field = Field { number: 4, name: "segments", limit: limits::MAX_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[SEGMENTS];
}

/// `RemoveRequest`.
pub(crate) mod remove_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS];
}

/// `ReplicaLists`.
pub(crate) mod replica_lists {
    use super::*;
    pub(crate) const SEGMENTS: Field = Field { number: 8, name: "segments", limit: limits::MAX_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[SEGMENTS];
}

/// `ReplicateConfig`.
pub(crate) mod replicate_config {
    use super::*;
    pub(crate) const PREFERRED_SEGMENTS: Field = Field { number: 5, name: "preferred_segments", limit: limits::MAX_SEGMENTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[PREFERRED_SEGMENTS];
}

/// `ReportChangesRequest`.
pub(crate) mod report_changes_request {
    use super::*;
    pub(crate) const ENTRIES: Field = Field { number: 1, name: "entries", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[ENTRIES];
}

/// `ReportLossesRequest`.
pub(crate) mod report_losses_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const RANGES: Field = Field { number: 2, name: "ranges", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, RANGES];
}

/// `Request`.
pub(crate) mod request {
    use super::*;
    pub(crate) const PING: Field = Field { number: 1, name: "ping", limit: 1, fields: ping_request::FIELDS };
    pub(crate) const MOUNT_SEGMENT: Field = Field { number: 2, name: "mount_segment", limit: 1, fields: mount_segment_request::FIELDS };
    pub(crate) const UNMOUNT_SEGMENT: Field = Field { number: 3, name: "unmount_segment", limit: 1, fields: &[] };
    pub(crate) const PUT_START: Field = Field { number: 4, name: "put_start", limit: 1, fields: put_start_request::FIELDS };
    pub(crate) const PUT_END: Field = Field { number: 5, name: "put_end", limit: 1, fields: put_end_request::FIELDS };
    pub(crate) const PUT_REVOKE: Field = Field { number: 6, name: "put_revoke", limit: 1, fields: put_revoke_request::FIELDS };
    pub(crate) const GET_REPLICA_LIST: Field = Field { number: 7, name: "get_replica_list", limit: 1, fields: get_replica_list_request::FIELDS };
    pub(crate) const EXIST_KEY: Field = Field { number: 8, name: "exist_key", limit: 1, fields: exist_key_request::FIELDS };
    pub(crate) const REMOVE: Field = Field { number: 9, name: "remove", limit: 1, fields: remove_request::FIELDS };
    pub(crate) const SCAN: Field = Field { number: 10, name: "scan", limit: 1, fields: &[] };
    pub(crate) const CLEAR_REPLICAS: Field = Field { number: 11, name: "clear_replicas", limit: 1, fields: clear_replicas_request::FIELDS };
    pub(crate) const CREATE_TASK: Field = Field { number: 12, name: "create_task", limit: 1, fields: create_task_request::FIELDS };
    pub(crate) const QUERY_TASK: Field = Field { number: 13, name: "query_task", limit: 1, fields: &[] };
    pub(crate) const FETCH_TASKS: Field = Field { number: 14, name: "fetch_tasks", limit: 1, fields: &[] };
    pub(crate) const END_TASK: Field = Field { number: 15, name: "end_task", limit: 1, fields: &[] };
    pub(crate) const DROPPED: Field = Field { number: 17, name: "dropped", limit: 1, fields: &[] };
    pub(crate) const REPORT_INVENTORY: Field = Field { number: 18, name: "report_inventory", limit: 1, fields: &[] };
    pub(crate) const FETCH_DROPS: Field = Field { number: 19, name: "fetch_drops", limit: 1, fields: &[] };
    pub(crate) const DRAIN_SEGMENTS: Field = Field { number: 20, name: "drain_segments", limit: 1, fields: &[] };
    pub(crate) const RETRACT: Field = Field { number: 21, name: "retract", limit: 1, fields: retract_request::FIELDS };
    pub(crate) const REPORT_CHANGES: Field = Field { number: 22, name: "report_changes", limit: 1, fields: report_changes_request::FIELDS };
    pub(crate) const LIST_SEGMENTS: Field = Field { number: 23, name: "list_segments", limit: 1, fields: &[] };
    pub(crate) const LEAVE: Field = Field { number: 24, name: "leave", limit: 1, fields: leave_request::FIELDS };
    pub(crate) const PREFETCH: Field = Field { number: 25, name: "prefetch", limit: 1, fields: prefetch_request::FIELDS };
    pub(crate) const PREFIX_LEN: Field = Field { number: 26, name: "prefix_len", limit: 1, fields: prefix_len_request::FIELDS };
    pub(crate) const REPORT_LOSSES: Field = Field { number: 28, name: "report_losses", limit: 1, fields: report_losses_request::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[PING, MOUNT_SEGMENT, UNMOUNT_SEGMENT, PUT_START, PUT_END, PUT_REVOKE, GET_REPLICA_LIST, EXIST_KEY, REMOVE, SCAN, CLEAR_REPLICAS, CREATE_TASK, QUERY_TASK, FETCH_TASKS, END_TASK, DROPPED, REPORT_INVENTORY, FETCH_DROPS, DRAIN_SEGMENTS, RETRACT, REPORT_CHANGES, LIST_SEGMENTS, LEAVE, PREFETCH, PREFIX_LEN, REPORT_LOSSES];
}

/// `Response`.
pub(crate) mod response {
    use super::*;
    pub(crate) const PONG: Field = Field { number: 1, name: "pong", limit: 1, fields: &[] };
    pub(crate) const DONE: Field = Field { number: 2, name: "done", limit: 1, fields: &[] };
    pub(crate) const GRANTED: Field = Field { number: 3, name: "granted", limit: 1, fields: put_start_response::FIELDS };
    pub(crate) const STATUSES: Field = Field { number: 4, name: "statuses", limit: 1, fields: &[] };
    pub(crate) const LOCATED: Field = Field { number: 5, name: "located", limit: 1, fields: get_replica_list_response::FIELDS };
    pub(crate) const EXIST: Field = Field { number: 6, name: "exist", limit: 1, fields: &[] };
    pub(crate) const SCANNED: Field = Field { number: 7, name: "scanned", limit: 1, fields: scan_response::FIELDS };
    pub(crate) const REFUSED: Field = Field { number: 8, name: "refused", limit: 1, fields: &[] };
    pub(crate) const TASK_CREATED: Field = Field { number: 9, name: "task_created", limit: 1, fields: &[] };
    pub(crate) const TASK_REPORTED: Field = Field { number: 10, name: "task_reported", limit: 1, fields: &[] };
    pub(crate) const TASKS_FETCHED: Field = Field { number: 11, name: "tasks_fetched", limit: 1, fields: fetch_tasks_response::FIELDS };
    pub(crate) const REMAINING: Field = Field { number: 12, name: "remaining", limit: 1, fields: remaining_response::FIELDS };
    pub(crate) const MOUNTED: Field = Field { number: 13, name: "mounted", limit: 1, fields: &[] };
    pub(crate) const DROPS: Field = Field { number: 14, name: "drops", limit: 1, fields: &[] };
    pub(crate) const DRAINING: Field = Field { number: 15, name: "draining", limit: 1, fields: drain_segments_response::FIELDS };
    pub(crate) const SEGMENTS: Field = Field { number: 16, name: "segments", limit: 1, fields: list_segments_response::FIELDS };
    pub(crate) const PREFETCHED: Field = Field { number: 17, name: "prefetched", limit: 1, fields: &[] };
    pub(crate) const PREFIX_LEN: Field = Field { number: 18, name: "prefix_len", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[PONG, DONE, GRANTED, STATUSES, LOCATED, EXIST, SCANNED, REFUSED, TASK_CREATED, TASK_REPORTED, TASKS_FETCHED, REMAINING, MOUNTED, DROPS, DRAINING, SEGMENTS, PREFETCHED, PREFIX_LEN];
}

/// `RetractRequest`.
pub(crate) mod retract_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_BATCH_KEYS as usize, fields: &[] };
    pub(crate) const RANGES: Field = Field { number: 2, name: "ranges", limit: 1, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[KEYS, RANGES];
}

/// `ScanResponse`.
pub(crate) mod scan_response {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_SCAN_OBJECTS as usize, fields: &[] };
    pub(crate) const REPLICA_LISTS: Field = Field { number: 2, name: "replica_lists", limit: 1, fields: replica_lists::FIELDS };
    pub(crate) const REMAINS: Field = Field { number: 6, name: "remains", limit: 1, fields: remains::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[KEYS, REPLICA_LISTS, REMAINS];
}

/// `WelcomeResponse`.
pub(crate) mod welcome_response {
    use super::*;
    pub(crate) const LOCAL_SOCKET: Field = Field { number: 4, name: "local_socket", limit: 1, fields: &[] };
    pub(crate) const SHARED_DIRECTORY: Field = Field { number: 5, name: "shared_directory", limit: 1, fields: &[] };
    pub(crate) const TRANSPORTS: Field = Field { number: 6, name: "transports", limit: limits::MAX_TRANSPORTS as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[LOCAL_SOCKET, SHARED_DIRECTORY, TRANSPORTS];
}

/// `WriteParts`.
pub(crate) mod write_parts {
    use super::*;
    pub(crate) const ATTRIBUTES: Field = Field { number: 5, name: "attributes", limit: limits::MAX_FRAME_RANGES as usize, fields: &[] };
    pub(crate) const FIELDS: &[Field] = &[ATTRIBUTES];
}

/// `WriteRequest`.
pub(crate) mod write_request {
    use super::*;
    pub(crate) const KEYS: Field = Field { number: 1, name: "keys", limit: limits::MAX_FRAME_RANGES as usize, fields: &[] };
    pub(crate) const PARTS: Field = Field { number: 9, name: "parts", limit: 1, fields: write_parts::FIELDS };
    pub(crate) const FIELDS: &[Field] = &[KEYS, PARTS];
}
