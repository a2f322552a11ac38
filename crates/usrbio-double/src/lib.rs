//! Tests only: the library of 3FS without 3FS. It has the symbols that `mooncake-usrbio` uses.
//!
//! - A folder that has a file [`control::MARK`] counts as a mounted 3FS.
//! - Buffers and rings show as files of `3fs-virt/iovs` in that folder for as long as they live.
//! - Requests are carried out late, when their completions are waited for: memory that is reused before that holds wrong bytes.
//! - Tests can let calls and requests fail, move few bytes, or never be answered ([`control`]).
//!
//! Rust tests link it and give [`symbol`] to the crate under test. For programs it is a library of its own.

pub mod api;
pub mod control;
mod state;

pub use api::symbol;
