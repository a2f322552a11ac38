//! Dummy clients over real sockets and real shared memory, and segments that are lent at run time, with a master in this
//! process: the real state machine.

mod calls;
mod deaths;
mod host;
mod hostile;
#[allow(dead_code, reason = "the tests of stores use all of it")]
#[path = "../../../client/tests/sockets/master.rs"]
mod master;
mod mounts;
#[allow(dead_code, reason = "the tests of stores use all of it")]
#[path = "../../../client/tests/sockets/rig.rs"]
mod rig;
mod scene;
