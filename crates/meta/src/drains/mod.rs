//! Drain jobs: the leader moves the replicas of some segments to others, so that their nodes can leave.
//!
//! A request [begins](order) or cancels a [job](job). The job [walks](walk) over the
//! ranges of its segments. It has a task move each
//! replica on its segments, or [drops](release) a replica whose object has another. [`place`] chooses the target, and
//! [`report`] tells the progress. [`undrain`] gives segments back to puts. [`marks`] keeps them drained
//! under the next leader.
//!
//! Invariant (`check`): a replica that look-ups leave out is one that a running job wants to drop.

mod check;
mod job;
mod marks;
mod order;
mod place;
mod release;
mod report;
mod undrain;
mod walk;
mod withheld;

pub(crate) use self::job::Drains;
