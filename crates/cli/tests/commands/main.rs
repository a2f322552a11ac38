//! The commands for people, against pools of real processes.

#![allow(missing_docs, reason = "tests are no public interface")]

mod bench;
mod binary_keys;
mod events;
mod get_put;
mod list;
mod local_pool;
mod page;
mod pool;
mod protect;
mod shells;
mod tenant;
mod terminal;
mod top;
mod wrong_addresses;
