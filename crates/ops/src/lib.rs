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
//!             Step::Call(request) => op.on_reply(ask(request)),
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
//! A shell asks for steps through [`Deadline::next`], so that every call ends in time.
//!
//! Lists of results are by position: a key that occurs twice in a batch has two results.

#![forbid(unsafe_code)]

mod batches;
mod carry;
mod dropping;
mod get;
mod keyed;
mod location;
mod op;
mod placements;
mod prefix_len;
mod put;
mod removal;
mod retry;
mod span;
mod task;

pub use carry::CarryOp;
pub use get::{CacheLimits, GetItem, GetOp, Renewed, Route, RouteCache, Want, renewed};
pub use keyed::{ExistOp, KeyBatchOp, LocateOp, PrefetchOp, RoutesOp};
pub use location::{ObjectLocation, ReplicaLocation, Stripe};
pub use op::{Attributes, CallError, MoveError, Op, RangeToRead, RangeToWrite, Step};
pub use prefix_len::PrefixLenOp;
pub use put::{CloseOp, CloseOutcome, Closing, PutOp, PutPartsOp, PutSession, PutWrite, StartOp};
pub use removal::{ListOp, ListPageOp, ListedPage, RemoveOp, RemoveScanOp};
pub use retry::{Deadline, MasterRetry, Retry, RetryPolicy, is_idempotent};
pub use span::Part;
pub use task::TaskOp;
