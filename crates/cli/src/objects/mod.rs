//! The commands on objects: `get`, `put`, `ls`, `stat`, `rm`, `pin` and `exists`. Each joins the pool as a client that
//! lends nothing, or asks a master's admin server.
//!
//! `outcome` has the exit statuses and the errors, `output` and `target` where results go, `parts` moves large
//! objects a part at a time.

pub(crate) mod exists;
pub(crate) mod get;
pub(crate) mod ls;
pub(crate) mod outcome;
pub(crate) mod output;
mod parts;
mod pattern;
pub(crate) mod pin;
mod progress;
pub(crate) mod put;
pub(crate) mod rm;
pub(crate) mod stat;
mod target;
