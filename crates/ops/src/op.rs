use std::sync::Arc;

use mooncake_types::{
    Epoch, ErrorCode, Medium, NodeDrop, RangeRead, RangeWrite, Reply, Request, Tick,
};

/// One operation on the pool.
pub trait Op<'a> {
    /// What the operation answers.
    type Output;

    /// The next step. The shell hands back the outcome of a call or a transfer before it asks for another step.
    fn next(&mut self, now: Tick) -> Step<'a>;

    /// The outcome of the last [`Step::Call`].
    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        unreachable!("{reply:?}, and the master was asked nothing");
    }

    /// The outcome of the last [`Step::Read`], [`Step::Write`] or [`Step::Drop`], by position. A [`Step::Wait`] has
    /// none.
    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        unreachable!("{results:?}, and no bytes were to be moved");
    }

    /// The number of the current batch. Each batch has its own [`Deadline`](crate::Deadline).
    fn batch(&self) -> u64 {
        0
    }

    /// The answer, after [`Step::Done`].
    fn finish(self) -> Self::Output;
}

/// What an operation wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Ask the master.
    Call(Request<'a>),
    /// Read ranges from nodes.
    Read(Vec<RangeToRead>),
    /// Write ranges to nodes, under the epoch of their grants.
    Write(Epoch, Vec<RangeToWrite<'a>>),
    /// Have nodes drop entries.
    Drop(Vec<NodeDrop>),
    /// Do nothing until this moment.
    Wait(Tick),
    /// Do nothing: [`Op::finish`] gives the answer.
    Done,
}

/// One range to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeToRead {
    /// The item of the batch that the bytes are for.
    pub position: usize,
    /// The node that serves the range.
    pub endpoint: Arc<str>,
    /// The medium of the range.
    pub medium: Medium,
    /// The range to ask the node for.
    pub range: RangeRead,
    /// Offset of the bytes in the item's memory, which holds the whole object, or the wanted parts one behind the
    /// other.
    pub at: u64,
    /// Length of the whole object in bytes.
    pub object_len: u64,
}

/// One range to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeToWrite<'a> {
    /// The item of the batch that the bytes belong to.
    pub position: usize,
    /// The node that takes the range.
    pub endpoint: Arc<str>,
    /// The range to write, without the attributes.
    pub range: RangeWrite<'a>,
    /// Offset of the bytes in the item's memory, which holds the whole object, or the parts to write one behind the
    /// other.
    pub at: u64,
    /// Attributes that the node keeps with the entry.
    pub attributes: Attributes,
}

/// Opaque bytes from the master that every write of an object carries; nearly always none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes(Option<Arc<[u8]>>);

impl Attributes {
    /// As the master gave them.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self((!bytes.is_empty()).then(|| bytes.into()))
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Why the master gave no reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection, or it broke: whether the master acted is unknown if the request was sent.
    #[error("the master cannot be reached: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
    /// No reply in time: whether the master acted is unknown.
    #[error("the master did not answer within {after_ms} ms")]
    TimedOut {
        /// How long the caller waited, in milliseconds.
        after_ms: u64,
    },
    /// The master's answer makes no sense.
    #[error("the master's answer makes no sense: {reason}")]
    Protocol {
        /// What was wrong with it.
        reason: String,
    },
}

impl CallError {
    /// The error code that callers see.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unreachable { .. } | Self::Protocol { .. } => ErrorCode::RpcFail,
            Self::TimedOut { .. } => ErrorCode::RpcTimeout,
        }
    }
}

/// Why a range was not read or written. By now nothing touches the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// The node does not hold that version there.
    Stale,
    /// The node refused, and said why.
    Refused(ErrorCode),
    /// The node could not be reached, was too slow, or what it sent did not pass its checks.
    Broken,
}

/// The error code for a reply of the wrong kind.
pub(crate) fn unexpected(reply: &Reply) -> ErrorCode {
    match *reply {
        Reply::Refused(ErrorCode::Ok) => ErrorCode::InternalError,
        Reply::Refused(code) => code,
        _ => ErrorCode::InternalError,
    }
}
