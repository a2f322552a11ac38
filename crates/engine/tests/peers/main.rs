//! Engines in one process that transfer over loopback, and peers that break the protocol.

mod bad_input;
mod batches;
mod metadata;
mod metadata_server;
mod rig;
mod strangers;
mod transfers;
mod unregister;
