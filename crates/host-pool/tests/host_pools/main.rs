//! Pools without a master: in one process, and of several stores that name a folder.

mod folders;
mod private;
mod rig;
mod shared;
