//! What tests tell the library.

use std::path::Path;

use crate::state::{Fault, state};

/// A folder with this file in it counts as a mounted 3FS.
pub const MARK: &str = "3fs-virt/double";

/// Makes a folder, which must be there, a mounted 3FS.
///
/// # Panics
/// If it cannot be written.
pub fn mount(folder: &Path) {
    std::fs::create_dir_all(folder.join("3fs-virt/iovs")).expect("the folder can be written");
    std::fs::write(folder.join(MARK), b"").expect("the folder can be written");
}

/// Lets a call fail with an error number, once, after `before` more of its kind went well. The kind is the name of a function, or
/// `read` or `write` for requests that are carried out.
pub fn fail(call: &'static str, before: u64, error: i32) {
    state().faults.push(Fault { call, before, error });
}

/// Moves at most so many bytes by a request, from now on.
pub fn move_at_most(bytes: usize) {
    state().most_bytes = bytes;
}

/// Leaves the next requests unanswered, so many of them.
pub fn leave_unanswered(requests: u64) {
    state().unanswered = requests;
}

/// Carries out what was left unanswered, and completes it if its ring is there yet.
pub fn answer_late() {
    state().answer_late();
}

/// How often a function was called, or requests to `read` or `write` were carried out.
#[must_use]
pub fn calls(call: &str) -> u64 {
    state().calls.get(call).copied().unwrap_or(0)
}

/// Descriptors that are registered.
#[must_use]
pub fn registered() -> usize {
    state().files.len()
}

/// Bytes of all buffers that live, those of rings not included.
#[must_use]
pub fn buffer_bytes() -> usize {
    state().buffers.values().map(|buffer| buffer.len).sum()
}

/// Rings that live.
#[must_use]
pub fn rings() -> usize {
    state().rings.len()
}
