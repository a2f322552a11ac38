//! Keeps `generated.rs` and `generated_fields.rs` of `crates/wire/src` equal to the code that `proto/mooncake.proto`
//! generates, and the code of `crates/grpc` equal to what `proto/master_service.proto` generates.
//!
//! This crate contains only tests, `tests/generated`: they generate the code anew and compare it. They have a crate of
//! their own because the protobuf compiler takes most of a minute to compile and nothing else needs it. After a change
//! of the schema:
//!
//! ```text
//! UPDATE_GENERATED=1 cargo test -p mooncake-protogen
//! ```

#![forbid(unsafe_code)]
