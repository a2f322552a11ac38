//! Pools without a master: in one process, and shared by the stores that name one folder.

mod folders;
mod private;
mod rig;
mod shared;
