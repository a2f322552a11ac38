//! Engines in one process that transfer over loopback, and peers that break the protocol.

mod bad_input;
mod batches;
mod fabric;
mod metadata;
mod metadata_server;
mod pages;
mod rig;
mod strangers;
mod streams;
mod tickets;
mod transfers;
mod unregister;
