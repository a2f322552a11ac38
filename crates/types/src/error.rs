use std::fmt;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// An error, as callers of the Python API and of the admin HTTP server see it. The numbers are those of the
        /// C++ store and never change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl ErrorCode {
            /// Every code, from 0 downwards.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code with this number, if there is one.
            #[must_use]
            pub const fn from_number(number: i32) -> Option<ErrorCode> {
                match number {
                    $($number => Some(ErrorCode::$variant),)*
                    _ => None,
                }
            }

            /// The name that documentation and logs use, like `OBJECT_NOT_FOUND`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $name,)*
                }
            }
        }
    };
}

error_codes! {
    /// No error.
    Ok = 0, "OK";
    /// Internal error.
    InternalError = -1, "INTERNAL_ERROR";
    /// Buffer overflow.
    BufferOverflow = -10, "BUFFER_OVERFLOW";
    /// Shard index out of range.
    ShardIndexOutOfRange = -100, "SHARD_INDEX_OUT_OF_RANGE";
    /// There is no such segment.
    SegmentNotFound = -101, "SEGMENT_NOT_FOUND";
    /// The segment is mounted already, by another client or with other properties.
    SegmentAlreadyExists = -102, "SEGMENT_ALREADY_EXISTS";
    /// The master does not know this client.
    ClientNotFound = -103, "CLIENT_NOT_FOUND";
    /// The pool has no room and nothing can be evicted.
    NoAvailableHandle = -200, "NO_AVAILABLE_HANDLE";
    /// The version, epoch or protocol is not the current one.
    InvalidVersion = -300, "INVALID_VERSION";
    /// The key is empty, too long or not UTF-8.
    InvalidKey = -400, "INVALID_KEY";
    /// Write fail.
    WriteFail = -500, "WRITE_FAIL";
    /// An argument is wrong.
    InvalidParams = -600, "INVALID_PARAMS";
    /// Only the client that started the put may do this.
    IllegalClient = -601, "ILLEGAL_CLIENT";
    /// Invalid write.
    InvalidWrite = -700, "INVALID_WRITE";
    /// Invalid read.
    InvalidRead = -701, "INVALID_READ";
    /// Invalid replica.
    InvalidReplica = -702, "INVALID_REPLICA";
    /// The object exists but is not complete.
    ReplicaIsNotReady = -703, "REPLICA_IS_NOT_READY";
    /// There is no such object.
    ObjectNotFound = -704, "OBJECT_NOT_FOUND";
    /// An object with this key exists.
    ObjectAlreadyExists = -705, "OBJECT_ALREADY_EXISTS";
    /// A reader holds a lease on the object.
    ObjectHasLease = -706, "OBJECT_HAS_LEASE";
    /// The lease ended before the read ended.
    LeaseExpired = -707, "LEASE_EXPIRED";
    /// Object has replication task.
    ObjectHasReplicationTask = -708, "OBJECT_HAS_REPLICATION_TASK";
    /// Object no replication task.
    ObjectNoReplicationTask = -709, "OBJECT_NO_REPLICATION_TASK";
    /// Replica not found.
    ReplicaNotFound = -710, "REPLICA_NOT_FOUND";
    /// Replica already exists.
    ReplicaAlreadyExists = -711, "REPLICA_ALREADY_EXISTS";
    /// Replica is gone.
    ReplicaIsGone = -712, "REPLICA_IS_GONE";
    /// Replica not in local memory.
    ReplicaNotInLocalMemory = -713, "REPLICA_NOT_IN_LOCAL_MEMORY";
    /// Object replica busy.
    ObjectReplicaBusy = -714, "OBJECT_REPLICA_BUSY";
    /// The bytes could not be transferred. No transfer of them is still running.
    TransferFail = -800, "TRANSFER_FAIL";
    /// The bytes that arrived are not those that were sent.
    ChecksumMismatch = -801, "CHECKSUM_MISMATCH";
    /// The master could not be reached.
    RpcFail = -900, "RPC_FAIL";
    /// The master did not answer in time: whether it acted is unknown.
    RpcTimeout = -901, "RPC_TIMEOUT";
    /// Etcd operation error.
    EtcdOperationError = -1000, "ETCD_OPERATION_ERROR";
    /// Etcd key not exist.
    EtcdKeyNotExist = -1001, "ETCD_KEY_NOT_EXIST";
    /// Etcd transaction fail.
    EtcdTransactionFail = -1002, "ETCD_TRANSACTION_FAIL";
    /// Etcd ctx cancelled.
    EtcdCtxCancelled = -1003, "ETCD_CTX_CANCELLED";
    /// Oplog entry not found.
    OplogEntryNotFound = -1004, "OPLOG_ENTRY_NOT_FOUND";
    /// K8s lease operation error.
    K8sLeaseOperationError = -1005, "K8S_LEASE_OPERATION_ERROR";
    /// K8s lease not found.
    K8sLeaseNotFound = -1006, "K8S_LEASE_NOT_FOUND";
    /// Incomplete oplog catch up.
    IncompleteOplogCatchUp = -1007, "INCOMPLETE_OPLOG_CATCH_UP";
    /// The service is not ready for this.
    UnavailableInCurrentStatus = -1010, "UNAVAILABLE_IN_CURRENT_STATUS";
    /// The service is not the leader.
    UnavailableInCurrentMode = -1011, "UNAVAILABLE_IN_CURRENT_MODE";
    /// This build cannot do that.
    NotSupported = -1012, "NOT_SUPPORTED";
    /// File not found.
    FileNotFound = -1100, "FILE_NOT_FOUND";
    /// File open fail.
    FileOpenFail = -1101, "FILE_OPEN_FAIL";
    /// File read fail.
    FileReadFail = -1102, "FILE_READ_FAIL";
    /// File write fail.
    FileWriteFail = -1103, "FILE_WRITE_FAIL";
    /// File invalid buffer.
    FileInvalidBuffer = -1104, "FILE_INVALID_BUFFER";
    /// File lock fail.
    FileLockFail = -1105, "FILE_LOCK_FAIL";
    /// File invalid handle.
    FileInvalidHandle = -1106, "FILE_INVALID_HANDLE";
    /// Bucket not found.
    BucketNotFound = -1200, "BUCKET_NOT_FOUND";
    /// Bucket already exists.
    BucketAlreadyExists = -1201, "BUCKET_ALREADY_EXISTS";
    /// Keys exceed bucket limit.
    KeysExceedBucketLimit = -1202, "KEYS_EXCEED_BUCKET_LIMIT";
    /// Keys ultra limit.
    KeysUltraLimit = -1203, "KEYS_ULTRA_LIMIT";
    /// Unable offload.
    UnableOffload = -1300, "UNABLE_OFFLOAD";
    /// Unable offloading.
    UnableOffloading = -1301, "UNABLE_OFFLOADING";
    /// Task not found.
    TaskNotFound = -1400, "TASK_NOT_FOUND";
    /// Task pending limit exceeded.
    TaskPendingLimitExceeded = -1401, "TASK_PENDING_LIMIT_EXCEEDED";
    /// Job not found.
    JobNotFound = -1402, "JOB_NOT_FOUND";
    /// Serialize unsupported.
    SerializeUnsupported = -1500, "SERIALIZE_UNSUPPORTED";
    /// Serialize fail.
    SerializeFail = -1501, "SERIALIZE_FAIL";
    /// Deserialize fail.
    DeserializeFail = -1502, "DESERIALIZE_FAIL";
    /// Persistent fail.
    PersistentFail = -1503, "PERSISTENT_FAIL";
    /// Dfs network timeout.
    DfsNetworkTimeout = -1600, "DFS_NETWORK_TIMEOUT";
    /// Dfs service unavailable.
    DfsServiceUnavailable = -1601, "DFS_SERVICE_UNAVAILABLE";
    /// Dfs quota exceeded.
    DfsQuotaExceeded = -1602, "DFS_QUOTA_EXCEEDED";
    /// Dfs permission denied.
    DfsPermissionDenied = -1603, "DFS_PERMISSION_DENIED";
    /// Dfs stale handle.
    DfsStaleHandle = -1604, "DFS_STALE_HANDLE";
    /// Dfs partial write.
    DfsPartialWrite = -1605, "DFS_PARTIAL_WRITE";
    /// Tenant quota exceeded.
    TenantQuotaExceeded = -1700, "TENANT_QUOTA_EXCEEDED";
    /// Tenant not registered.
    TenantNotRegistered = -1701, "TENANT_NOT_REGISTERED";
    /// Tenant not empty.
    TenantNotEmpty = -1702, "TENANT_NOT_EMPTY";
    /// The token of the caller does not allow it. The C++ package has no such code.
    PermissionDenied = -1900, "PERMISSION_DENIED";
}

impl ErrorCode {
    /// A node answers this if its own master has not yet named the leader of the request. If that leader does lead,
    /// the next heartbeat tells the node, so the caller may repeat the request.
    pub const UNKNOWN_LEADER: ErrorCode = ErrorCode::ReplicaIsNotReady;

    /// The number that crosses the wire and the Python boundary: zero or negative.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_by_its_number() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ErrorCode::from_number(1), None);
    }

    #[test]
    fn the_codes_that_callers_meet_have_the_numbers_they_know() {
        let known = [
            (ErrorCode::Ok, 0, "OK"),
            (ErrorCode::NoAvailableHandle, -200, "NO_AVAILABLE_HANDLE"),
            (ErrorCode::InvalidParams, -600, "INVALID_PARAMS"),
            (ErrorCode::ReplicaIsNotReady, -703, "REPLICA_IS_NOT_READY"),
            (ErrorCode::ObjectNotFound, -704, "OBJECT_NOT_FOUND"),
            (ErrorCode::ObjectAlreadyExists, -705, "OBJECT_ALREADY_EXISTS"),
            (ErrorCode::ObjectHasLease, -706, "OBJECT_HAS_LEASE"),
            (ErrorCode::LeaseExpired, -707, "LEASE_EXPIRED"),
            (ErrorCode::TransferFail, -800, "TRANSFER_FAIL"),
            (ErrorCode::RpcFail, -900, "RPC_FAIL"),
            (ErrorCode::RpcTimeout, -901, "RPC_TIMEOUT"),
            (ErrorCode::UnavailableInCurrentMode, -1011, "UNAVAILABLE_IN_CURRENT_MODE"),
            (ErrorCode::TenantQuotaExceeded, -1700, "TENANT_QUOTA_EXCEEDED"),
        ];
        for (code, number, name) in known {
            assert_eq!((code.number(), code.name()), (number, name));
        }
    }
}
