//! Tests only: the library of 3FS without 3FS. It has the symbols that `mooncake-usrbio` uses.
//!
//! - A folder that contains [`control::MARK`] counts as a mounted 3FS.
//! - Buffers and rings show as files in that folder's `3fs-virt/iovs` as long as they live.
//! - Requests are carried out late, when the caller waits for their completions. Memory that is reused before that
//!   gets wrong bytes.
//! - Tests can make calls and requests fail, move few bytes, or stay unanswered ([`control`]).
//!
//! Rust tests link it and pass [`symbol`] to the crate under test. For other programs it is a shared library.

pub mod api;
pub mod control;
mod state;

pub use api::symbol;
