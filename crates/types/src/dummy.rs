//! What a dummy client asks of its host process, and is answered. No object byte travels: requests name pieces of memory
//! that the dummy client shares, which both processes have mapped.

use crate::{ErrorCode, Located, PutMode, ReplicateConfig, SegmentAddress};

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

/// An object, and where its bytes come from or go to, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyObject<'a> {
    /// Its key.
    pub key: &'a str,
    /// The pieces of memory.
    pub pieces: Vec<Piece>,
}

/// An object to be put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyPut<'a> {
    /// Its key, and where its bytes come from.
    pub object: DummyObject<'a>,
    /// The name of its group; empty for none.
    pub group: &'a str,
}

/// Parts of an object, each given by its offset in the object, and where they go to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DummyFragments<'a> {
    /// The key of the object.
    pub key: &'a str,
    /// The parts.
    pub fragments: Vec<(u64, Piece)>,
}

/// What a dummy client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DummyRequest<'a> {
    /// The first request on each connection.
    Attach {
        /// The attachment that this connection joins. Absent on the first connection of an attachment: the attachment ends
        /// with that connection.
        attachment: Option<u128>,
    },
    /// Has the host process map memory. The descriptor of the memory comes with the request.
    ShareMemory {
        /// Its length in bytes.
        len: u64,
    },
    /// Has it unmapped.
    UnshareMemory {
        /// Its number.
        map: u32,
    },
    /// Does the master answer?
    Health,
    /// Puts objects.
    Put {
        /// What happens to keys that are taken.
        mode: PutMode,
        /// How they are placed and kept.
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
    /// Do these objects exist?
    Exist {
        /// Their keys.
        keys: Vec<&'a str>,
    },
    /// How many of these objects exist, from the first on without a gap?
    PrefixLen {
        /// Their keys, in order.
        keys: Vec<&'a str>,
    },
    /// Where do these objects lie?
    Locate {
        /// They are to be got: one that does not exist counts as a miss.
        to_get: bool,
        /// Their keys.
        keys: Vec<&'a str>,
    },
    /// Removes objects.
    Remove {
        /// Their keys.
        keys: Vec<&'a str>,
        /// Leased ones too.
        force: bool,
    },
    /// Removes all objects whose keys match.
    RemoveMatching {
        /// A regular expression; all objects if absent.
        pattern: Option<&'a str>,
        /// Leased ones too.
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
        /// The name of the segments whose replicas go; all if empty.
        segment: &'a str,
    },
}

/// What a dummy client is answered. Lists of results stand in the order of what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DummyReply {
    /// To [`DummyRequest::Attach`].
    Attached {
        /// Names the attachment on further connections.
        attachment: u128,
        /// What the host process is known by, `host:port`.
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
    /// To [`DummyRequest::Get`]: the lengths of the objects. To [`DummyRequest::GetFragments`]: those of the parts, of one
    /// object after the other.
    Lengths(Vec<Result<u64, ErrorCode>>),
    /// To [`DummyRequest::Exist`].
    Exist(Vec<Result<bool, ErrorCode>>),
    /// To [`DummyRequest::PrefixLen`].
    PrefixLen(u32),
    /// To [`DummyRequest::Locate`].
    Located {
        /// One result for each key.
        results: Vec<Result<Located, ErrorCode>>,
        /// The segments that the placements point into.
        segments: Vec<SegmentAddress>,
    },
    /// To [`DummyRequest::RemoveMatching`]: how many objects were removed.
    Removed(u64),
    /// To [`DummyRequest::List`].
    Listed {
        /// Keys and places.
        objects: Vec<(String, Located)>,
        /// The segments that the placements point into.
        segments: Vec<SegmentAddress>,
    },
    /// To anything: the whole request failed.
    Refused(ErrorCode),
}
