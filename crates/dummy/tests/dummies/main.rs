//! Dummy clients over real sockets and shared memory, and segments that are lent at run time. The master runs in this
//! process, with the real state machine.

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
