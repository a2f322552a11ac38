//! Programs as processes of their own, for tests: started, listened to, stopped, paused and killed.

#![forbid(unsafe_code)]

mod program;

pub use program::{PATIENCE, Program};
