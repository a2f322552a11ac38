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
mod deadline;
mod dropping;
mod erase;
mod exist;
mod get;
mod hold;
mod in_get;
mod keyed;
mod locate;
mod master_retry;
mod op;
mod placements;
mod predecessors;
mod put;
mod remove;
mod renew;
mod retry;
mod route;
mod route_cache;
mod scan;
mod span;
mod task;

pub use carry::CarryOp;
pub use clear::ClearOp;
pub use deadline::Deadline;
pub use erase::Erase;
pub use exist::ExistOp;
pub use get::{GetItem, GetOp, Want};
pub use hold::HoldOp;
pub use keyed::{Keyed, Verb};
pub use locate::{LocateOp, ObjectLocation, ReplicaLocation, Stripe};
pub use master_retry::{MasterRetry, is_idempotent};
pub use op::{Attributes, CallError, Deposit, Fetch, MoveError, Op, Step};
pub use put::{CloseOp, Closed, Closing, PutOp, PutPartsOp, PutSession, PutWrite, StartOp};
pub use remove::{Remove, RemoveOp};
pub use renew::{Renewed, renewed};
pub use retry::{Retry, RetryPolicy};
pub use route::Route;
pub use route_cache::{CacheLimits, RouteCache};
pub use scan::{ListOp, RemoveScanOp};
pub use span::Part;
pub use task::TaskOp;
