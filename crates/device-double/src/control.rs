//! What tests tell the driver. Each function has a symbol of the same name, for Python.

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

use crate::state::{CURRENT, Fault, State, state};

/// Lets a call fail with `code`, once, after `before` more of its kind went well. The kind is the name of a function, `execute` for
/// copies that streams make, or empty for any.
///
/// # Safety
/// `call` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn double_fail(call: *const c_char, before: u64, code: c_int) {
    // SAFETY: as the caller promises.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy().into_owned();
    state().faults.push(Fault { call, before, code });
}

/// As [`double_fail`].
pub fn fail(call: &str, before: u64, code: i32) {
    state().faults.push(Fault { call: call.to_owned(), before, code });
}

/// Lets calls fail that the environment names, as [`fail`] does: `DOUBLE_FAIL=cuInit=100,cuMemHostRegister=2`. For programs that
/// load the double by themselves.
pub(crate) fn fail_by_environment(state: &mut State) {
    let named = std::env::var("DOUBLE_FAIL").unwrap_or_default();
    for (call, code) in named.split(',').filter_map(|one| one.split_once('=')) {
        let (call, code) = (call.to_owned(), code.parse().expect("a CUresult"));
        state.faults.push(Fault { call, before: 0, code });
    }
}

/// How often a function was called, or copies were executed; see [`double_fail`].
///
/// # Safety
/// `call` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn double_calls(call: *const c_char) -> u64 {
    // SAFETY: as the caller promises.
    calls(&unsafe { CStr::from_ptr(call) }.to_string_lossy())
}

/// As [`double_calls`].
#[must_use]
pub fn calls(call: &str) -> u64 {
    state().calls.get(call).copied().unwrap_or(0)
}

/// Ends the primary context of a device, with all memory in it.
#[unsafe(no_mangle)]
pub extern "C" fn double_lose_context(device: u32) {
    let mut state = state();
    *state.generations.entry(device).or_default() += 1;
    let lost: Vec<u64> = state
        .allocations
        .iter()
        .filter(|(_, one)| one.context.device == device)
        .map(|(&start, _)| start)
        .collect();
    let lost: Vec<_> = lost.iter().filter_map(|start| state.allocations.remove(start)).collect();
    state.locked.clear();
    drop(state);
    drop(lost);
}

/// Bytes that each device has.
#[unsafe(no_mangle)]
pub extern "C" fn double_limit_device(bytes: usize) {
    state().device_limit = bytes;
}

/// Bytes of the host that may be locked.
#[unsafe(no_mangle)]
pub extern "C" fn double_limit_locks(bytes: usize) {
    state().lock_limit = bytes;
}

/// How long streams wait before each piece of work.
#[unsafe(no_mangle)]
pub extern "C" fn double_delay_us(micros: u64) {
    state().delay = Duration::from_micros(micros);
}

/// How long it takes to unlock memory of the host. The driver does other things meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn double_unlock_delay_us(micros: u64) {
    state().unlock_delay = Duration::from_micros(micros);
}

/// The NUMA node that all devices are next to; negative if that is not known.
#[unsafe(no_mangle)]
pub extern "C" fn double_numa_node(node: i32) {
    state().numa_node = node;
}

/// Whether the driver has a batched copy.
#[unsafe(no_mangle)]
pub extern "C" fn double_batch(has_batch: bool) {
    state().has_batch = has_batch;
}

/// Whether streams can wait for values.
#[unsafe(no_mangle)]
pub extern "C" fn double_wait_value(has_wait: bool) {
    state().has_wait = has_wait;
}

/// Whether all streams are one queue of the device, as they may be where there are many: a stream that waits then holds up the
/// copies of all.
#[unsafe(no_mangle)]
pub extern "C" fn double_one_queue(has_one_queue: bool) {
    state().has_one_queue = has_one_queue;
}

/// Bytes of the host that are locked.
#[unsafe(no_mangle)]
pub extern "C" fn double_locked() -> usize {
    state().locked.values().sum()
}

/// `count` allocations of `len` bytes side by side, as virtual memory is mapped; zero if there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn double_alloc_pieces(device: u32, len: usize, count: usize) -> u64 {
    let mut state = state();
    let context = state.context_of(device);
    state.allocate(context, len, count).unwrap_or(0)
}

/// Makes the primary context of a device the thread's current one.
#[unsafe(no_mangle)]
pub extern "C" fn double_use_device(device: u32) {
    let mut state = state();
    state.process.get_or_insert_with(std::process::id);
    let context = state.context_of(device);
    drop(state);
    CURRENT.with_borrow_mut(|contexts| {
        contexts.clear();
        contexts.push(context);
    });
}

/// Forgets faults and counts, and sets limits and delays as they were at first. Memory stays.
#[unsafe(no_mangle)]
pub extern "C" fn double_reset() {
    let mut state = state();
    state.faults.clear();
    state.calls.clear();
    state.lock_limit = usize::MAX;
    state.device_limit = 8 << 30;
    state.delay = Duration::from_micros(200);
    state.has_batch = true;
    (state.has_wait, state.has_one_queue) = (true, false);
    state.numa_node = -1;
    state.unlock_delay = Duration::ZERO;
}

/// Frees memory of a device.
///
/// # Panics
/// If none starts there.
pub fn free(address: u64) {
    let freed = state().allocations.remove(&address);
    assert!(freed.is_some(), "no memory of a device starts at {address:#x}");
}
