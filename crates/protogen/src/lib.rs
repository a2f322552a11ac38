//! Keeps `crates/wire/src/generated.rs` in step with `proto/mooncake.proto`.
//!
//! Nothing is here but a test, `tests/generated.rs`, which generates the code anew and compares. It is a crate of its own
//! because it takes the better part of a minute to compile the protobuf compiler, which nothing else needs. After a change
//! of the schema:
//!
//! ```text
//! UPDATE_GENERATED=1 cargo test -p mooncake-protogen
//! ```

#![forbid(unsafe_code)]
