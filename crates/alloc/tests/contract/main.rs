//! The contract of both allocators, checked against a plain list of intervals.
//!
//! Random tests print their seed; `MOONCAKE_SEED=n` replays them.

#![allow(clippy::disallowed_methods, reason = "the seed may come from outside")]

mod bad_input;
mod chance;
mod churn;
mod exhaustive;
mod model;
mod random;
mod recovery;
mod uniform;
