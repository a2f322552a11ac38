//! The shared library `libmooncake_store.so`: the store's calls for C.
//!
//! Its first 19 functions are those of the C++ package's `store_c.h`, with its arguments and numbers, so that bindings
//! made for that library work with this one. `include/store_c.h` describes all functions, and
//! `include/mooncake/client.hpp` is a client for C++ on top of them.
//!
//! This crate turns pointers into checked arguments. The rules between arguments and the client are those of
//! `mooncake-binding`, which Python has as well.
//!
//! - A handle is a number in a table (`handle.rs`), never an address: a handle of a destroyed store is refused.
//! - A wrong argument is a negative number and a line in the log, never a crash.
//! - A panic ends at `guarded` of `guard.rs`, and never unwinds into C.

#![allow(unsafe_code, reason = "arguments of C are pointers")]

mod array;
mod config;
mod error_name;
mod exist;
mod get;
mod guard;
mod handle;
mod lifecycle;
mod put;
mod query;
mod register;
mod remove;
mod slices;
mod text;
