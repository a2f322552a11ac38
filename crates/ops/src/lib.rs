//! The operations of a client: what a put, a get and their kin send next, when they try again, and what a reply means.
//! Pure machines, with no socket, no clock and no thread.
//!
//! A machine is driven by asking it for its next [`Step`], doing that step, and handing the outcome back:
//!
//! ```
//! use mooncake_ops::{CallError, Op, Step};
//! use mooncake_types::{Reply, Request, Tick};
//!
//! fn run<'a, O: Op<'a>>(mut op: O, ask: impl Fn(Request<'a>) -> Result<Reply, CallError>) -> O::Output {
//!     let now = Tick::ZERO;
//!     loop {
//!         match op.next(now) {
//!             Step::Call(request) => op.on_reply(now, ask(request)),
//!             Step::Done => return op.finish(),
//!             _ => unreachable!("this verb moves no bytes"),
//!         }
//!     }
//! }
//! let op = mooncake_ops::ExistOp::new(&["a", "b"]);
//! let found = run(op, |_| Ok(Reply::Exist(vec![Ok(true), Ok(false)])));
//! assert_eq!(found, vec![Ok(true), Ok(false)]);
//! ```
//!
//! A shell asks for it through [`Deadline::next`], so that every call ends in time whatever it would still try.
//!
//! Lists of results are by position: a key that stands twice in a batch has two results.

#![forbid(unsafe_code)]

mod batches;
mod carry;
mod clear;
mod coverage;
mod deadline;
mod discard;
mod dropping;
mod ending;
mod erase;
mod exist;
mod get;
mod granted;
mod hold;
mod in_get;
mod keyed;
mod locate;
mod master_retry;
mod open_put;
mod placements;
mod predecessors;
mod put;
mod put_check;
mod put_parts;
mod put_session;
mod remove;
mod renew;
mod retry;
mod route;
mod route_cache;
mod scan;
mod span;
mod task;

use std::sync::Arc;

use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, Reply, Request, Tick};

pub use carry::CarryOp;
pub use clear::ClearOp;
pub use deadline::Deadline;
pub use discard::DiscardOp;
pub use erase::Erase;
pub use exist::ExistOp;
pub use get::{GetItem, GetOp, Want};
pub use granted::Attributes;
pub use hold::HoldOp;
pub use keyed::{Keyed, Verb};
pub use locate::{LocateOp, ObjectLocation, ReplicaLocation, Stripe};
pub use master_retry::{MasterRetry, is_idempotent};
pub use mooncake_types::Discard;
pub use open_put::{OpenPut, PartsWrite};
pub use put::PutOp;
pub use put_parts::{PartsItem, PutPartsOp};
pub use put_session::{CloseOp, Closed, Closing, StartOp};
pub use remove::{Remove, RemoveOp};
pub use renew::{Renewed, renewed};
pub use retry::{Retry, RetryPolicy};
pub use route::Route;
pub use route_cache::{CacheLimits, RouteCache};
pub use scan::{ListOp, RemoveScanOp};
pub use span::Part;
pub use task::TaskOp;

/// One operation on the pool.
pub trait Op<'a> {
    /// What the operation answers.
    type Output;

    /// What to do now. After a call or a transfer its outcome is handed back before this is asked again.
    fn next(&mut self, now: Tick) -> Step<'a>;

    /// The outcome of the last [`Step::Call`].
    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>);

    /// The outcome of the last [`Step::Read`], [`Step::Write`] or [`Step::Drop`], by position. A [`Step::Wait`] has none.
    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>);

    /// Which batch of a call with many items it is at: each has a [`Deadline`] of its own.
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
    Read(Vec<Fetch>),
    /// Write ranges to nodes, under the epoch of their grants.
    Write(Epoch, Vec<Deposit<'a>>),
    /// Have nodes drop entries.
    Drop(Vec<Discard>),
    /// Do nothing until this moment.
    Wait(Tick),
    /// Nothing: the answer is there.
    Done,
}

/// One range to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The item of the batch that the bytes are for.
    pub position: usize,
    /// The node that serves the range.
    pub endpoint: Arc<str>,
    /// What to ask it for.
    pub range: RangeRead,
    /// Their place in the item's memory: in the object if all of it is wanted, else among the parts wanted, which stand
    /// one behind the other.
    pub at: u64,
    /// Length of the whole object in bytes.
    pub object_len: u64,
}

/// One range to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit<'a> {
    /// The item of the batch that the bytes are of.
    pub position: usize,
    /// The node that takes the range.
    pub endpoint: Arc<str>,
    /// What to tell it, but for the attributes.
    pub range: RangeWrite<'a>,
    /// The place of the bytes in the item's memory: in the object if all of it is written, else among the parts to be
    /// written, which stand one behind the other.
    pub at: u64,
    /// What the node is to keep with the entry.
    pub attributes: Attributes,
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
    /// The number that callers see.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unreachable { .. } | Self::Protocol { .. } => ErrorCode::RpcFail,
            Self::TimedOut { .. } => ErrorCode::RpcTimeout,
        }
    }
}

/// Why a range was not read or written. Nothing touches the caller's memory any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveError {
    /// The node does not hold that version there.
    Stale,
    /// The node refused, and said why.
    Refused(ErrorCode),
    /// The node could not be reached, was too slow, or what it sent did not pass its checks.
    Broken,
}

/// The code of a reply that is not of the kind that was asked for.
fn unexpected(reply: &Reply) -> ErrorCode {
    match *reply {
        Reply::Refused(ErrorCode::Ok) => ErrorCode::InternalError,
        Reply::Refused(code) => code,
        _ => ErrorCode::InternalError,
    }
}
