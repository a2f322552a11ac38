//! Drain jobs: segments whose replicas are moved to others, so that their nodes can leave.
//!
//! A [job](job) [begins and ends](order) by request. It [walks](walk) over all ranges and has each replica on its segments moved
//! by a task, or [lets go](release) of one that lies elsewhere too. [`place`] says where to, [`report`] how far it is.
//!
//! Invariant (`check`): what look-ups leave out is a replica that a running job wants to let go of.

mod check;
mod job;
mod order;
mod place;
mod release;
mod report;
mod walk;
mod withheld;

pub(crate) use self::job::Drains;
