//! Frames that a peer may send, whatever they say, to what takes them: the master's state machine, a node, and the
//! operations of a client. Each is decoded first, as it would be off a socket. None may panic, or break an invariant.

mod client;
#[allow(dead_code, reason = "some of it is for the tests of the decoders alone")]
#[path = "../../../wire/tests/frames/frame.rs"]
mod frame;
mod master;
mod node;
#[path = "../../../wire/tests/frames/seed.rs"]
mod seed;
#[allow(dead_code, reason = "as above")]
#[path = "../../../wire/tests/frames/strategy.rs"]
mod strategy;
#[allow(dead_code, reason = "as above")]
#[path = "../../../wire/tests/frames/strategy_dummy.rs"]
mod strategy_dummy;
#[path = "../../../wire/tests/frames/strategy_reply.rs"]
mod strategy_reply;
mod told;
