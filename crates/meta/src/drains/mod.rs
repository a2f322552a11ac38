//! Drain jobs: segments whose replicas are moved to others, so that their nodes can leave.

mod job;
mod place;
mod release;
mod report;
mod walk;

pub(crate) use self::job::Drains;
