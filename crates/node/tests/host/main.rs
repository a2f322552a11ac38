//! A host of segments, as the transports, the neighbours and the readers of its memory see it.

mod disks;
mod epochs;
mod parts;
mod pins;
mod shells;
mod slots;
