//! Engines of one process that talk to each other over loopback, and to peers that misbehave.

mod bad_input;
mod batches;
mod metadata;
mod metadata_server;
mod rig;
mod strangers;
mod transfers;
mod unregister;
