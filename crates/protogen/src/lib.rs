//! Keeps `generated.rs` and `generated_fields.rs` of `crates/wire/src` in step with `proto/mooncake.proto`.
//!
//! This crate has nothing but tests, `tests/generated`: they generate the code anew and compare. It is a crate of its own
//! because the protobuf compiler, which nothing else needs, takes the better part of a minute to compile. After a change
//! of the schema:
//!
//! ```text
//! UPDATE_GENERATED=1 cargo test -p mooncake-protogen
//! ```

#![forbid(unsafe_code)]
