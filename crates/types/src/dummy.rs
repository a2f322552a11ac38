//! Requests of a dummy client to its host process, and the replies. No object byte travels: requests name pieces of
//! memory that the dummy client shares and that both processes have mapped.

use crate::{ErrorCode, ExistOptions, Located, PutMode, ReplicateConfig, SegmentAddress};

/// A piece of shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The number that [`DummyReply::MemoryShared`] gave to the memory.
    pub map: u32,
    /// First byte, counted from the start of the shared memory.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// An object, and the pieces of memory that are the source or the destination of its bytes, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyObject<'a> {
    /// Its key.
    pub key: &'a str,
    /// The pieces of memory.
    pub pieces: Vec<Piece>,
}

/// An object to put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyPut<'a> {
    /// Its key, and the source of its bytes.
    pub object: DummyObject<'a>,
    /// The name of its group; empty for none.
    pub group: &'a str,
    /// The session that it belongs to; empty for none.
    pub session: &'a str,
}

/// Parts of an object. Each part is an offset in the object and the piece of memory that receives its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyFragments<'a> {
    /// The key of the object.
    pub key: &'a str,
    /// The parts.
    pub fragments: Vec<(u64, Piece)>,
}

/// A request of a dummy client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DummyRequest<'a> {
    /// The first request on each connection.
    Attach {
        /// The attachment that this connection joins. Absent on the first connection of an attachment: the attachment
        /// ends with that connection.
        attachment: Option<u128>,
    },
    /// Asks the host process to map memory. The file descriptor of the memory comes with the request.
    ShareMemory {
        /// Its length in bytes.
        len: u64,
    },
    /// Asks the host process to unmap memory.
    UnshareMemory {
        /// Its number.
        map: u32,
    },
    /// Asks whether the master answers.
    Health,
    /// Puts objects.
    Put {
        /// What happens if an object with one of the keys exists.
        mode: PutMode,
        /// Placement and pins, the same for all objects.
        config: ReplicateConfig<'a>,
        /// The objects.
        puts: Vec<DummyPut<'a>>,
    },
    /// Gets objects.
    Get {
        /// The objects.
        objects: Vec<DummyObject<'a>>,
    },
    /// Gets parts of objects.
    GetFragments {
        /// The parts, by object.
        objects: Vec<DummyFragments<'a>>,
    },
    /// Asks which of these objects exist.
    Exist {
        /// Their keys.
        keys: Vec<&'a str>,
        /// What else the question does.
        options: ExistOptions,
    },
    /// Asks how many of these objects exist, from the first on without a gap.
    PrefixLen {
        /// Their keys, in order.
        keys: Vec<&'a str>,
        /// The position of the first key whose object gets a lease.
        leased_from: u32,
    },
    /// Asks where these objects lie.
    Locate {
        /// Whether the caller will get the objects: one that does not exist counts as a miss.
        to_get: bool,
        /// Their keys.
        keys: Vec<&'a str>,
    },
    /// Removes objects.
    Remove {
        /// Their keys.
        keys: Vec<&'a str>,
        /// Whether leased objects are removed too.
        force: bool,
    },
    /// Removes all objects whose keys match.
    RemoveMatching {
        /// A regular expression; all objects if absent.
        pattern: Option<&'a str>,
        /// Whether leased objects are removed too.
        force: bool,
    },
    /// Lists all objects whose keys match.
    List {
        /// A regular expression.
        pattern: &'a str,
    },
    /// Drops replicas of objects.
    ClearReplicas {
        /// The keys of the objects.
        keys: Vec<&'a str>,
        /// Only replicas on segments of this name; all replicas if empty.
        segment: &'a str,
    },
}

impl<'a> DummyRequest<'a> {
    /// [`DummyRequest::Exist`] without options.
    #[must_use]
    pub fn exist(keys: Vec<&'a str>) -> Self {
        Self::Exist { keys, options: ExistOptions::default() }
    }
}

/// A reply to a dummy client. Lists of results are in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DummyReply {
    /// To [`DummyRequest::Attach`].
    Attached {
        /// The id of the attachment. Further connections name it.
        attachment: u128,
        /// The name of the host process in the pool, `host:port`.
        hostname: String,
    },
    /// To [`DummyRequest::ShareMemory`].
    MemoryShared {
        /// The number of the memory.
        map: u32,
    },
    /// To [`DummyRequest::UnshareMemory`], with one result, and to puts, removals and clears.
    Statuses(Vec<Result<(), ErrorCode>>),
    /// To [`DummyRequest::Health`]: whether the master answers.
    Health(bool),
    /// To [`DummyRequest::Get`]: the length of each object. To [`DummyRequest::GetFragments`]: the length of each
    /// part, object by object.
    Lengths(Vec<Result<u64, ErrorCode>>),
    /// To [`DummyRequest::Exist`].
    Exist(Vec<Result<bool, ErrorCode>>),
    /// To [`DummyRequest::PrefixLen`].
    PrefixLen(u32),
    /// To [`DummyRequest::Locate`].
    Located {
        /// One result for each key.
        results: Vec<Result<Located, ErrorCode>>,
        /// The segments to which the placements refer.
        segments: Vec<SegmentAddress>,
    },
    /// To [`DummyRequest::RemoveMatching`]: how many objects were removed.
    Removed(u64),
    /// To [`DummyRequest::List`].
    Listed {
        /// The keys and placements of the objects.
        objects: Vec<(String, Located)>,
        /// The segments to which the placements refer.
        segments: Vec<SegmentAddress>,
    },
    /// To any request: all of it failed.
    Refused(ErrorCode),
}
