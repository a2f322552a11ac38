//! The controls of the double, for tests.

use std::path::Path;

use crate::state::{Fault, state};

/// A folder that contains this file counts as a mounted 3FS.
pub const MARK: &str = "3fs-virt/double";

/// Turns an existing folder into a mounted 3FS.
///
/// # Panics
/// If the folder cannot be written.
pub fn mount(folder: &Path) {
    std::fs::create_dir_all(folder.join("3fs-virt/iovs")).expect("the folder can be written");
    std::fs::write(folder.join(MARK), b"").expect("the folder can be written");
}

/// Makes one call fail with an error number, after `before` further calls of its kind have succeeded. The kind is the
/// name of a function, or `read` or `write` for requests that are carried out.
pub fn fail(call: &'static str, before: u64, error: i32) {
    state().faults.push(Fault { call, before, error });
}

/// Limits every later request to this many bytes.
pub fn move_at_most(bytes: usize) {
    state().most_bytes = bytes;
}

/// Leaves this many of the next requests unanswered.
pub fn leave_unanswered(requests: u64) {
    state().unanswered = requests;
}

/// Carries out the unanswered requests, and completes those whose rings still exist.
pub fn answer_late() {
    state().answer_late();
}

/// How often a function was called, or `read` or `write` requests were carried out.
#[must_use]
pub fn calls(call: &str) -> u64 {
    state().calls.get(call).copied().unwrap_or(0)
}

/// How many descriptors are registered.
#[must_use]
pub fn registered() -> usize {
    state().files.len()
}

/// Total length of all live buffers, without rings.
#[must_use]
pub fn buffer_bytes() -> usize {
    state().buffers.values().map(|buffer| buffer.len).sum()
}

/// How many rings exist.
#[must_use]
pub fn rings() -> usize {
    state().rings.len()
}
