//! A host of segments, as transports, processes on the same host and readers of its memory see it.

mod disks;
mod epochs;
mod named;
mod parts;
mod pins;
mod shells;
mod slots;
