//! The controls of the double, for tests. Each `double_*` function is also an exported symbol, for Python.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::state::{CURRENT, DriverState, Fault, state};

/// Makes one call fail with `code`, after `before` further calls of its kind have succeeded. The kind is the name of a
/// function, `execute` for copies that streams make, or empty for any.
///
/// # Safety
/// `call` must end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn double_fail(call: *const c_char, before: u64, code: c_int) {
    // SAFETY: the caller promises that `call` ends with a zero.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy().into_owned();
    state().faults.push(Fault { call, before, code });
}

/// The safe form of [`double_fail`].
pub fn fail(call: &str, before: u64, code: i32) {
    state().faults.push(Fault { call: call.to_owned(), before, code });
}

/// Makes calls fail that the environment names, as [`fail`] does: `DOUBLE_FAIL=cuInit=100,cuMemHostRegister=2`. For
/// programs that load the double themselves.
pub(crate) fn fail_by_environment(state: &mut DriverState) {
    let named = std::env::var("DOUBLE_FAIL").unwrap_or_default();
    for (call, code) in named.split(',').filter_map(|one| one.split_once('=')) {
        let (call, code) = (call.to_owned(), code.parse().expect("a CUresult"));
        state.faults.push(Fault { call, before: 0, code });
    }
}

/// How often a function was called, or copies were executed; for `call` see [`double_fail`].
///
/// # Safety
/// `call` must end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn double_calls(call: *const c_char) -> u64 {
    // SAFETY: the caller promises that `call` ends with a zero.
    calls(&unsafe { CStr::from_ptr(call) }.to_string_lossy())
}

/// The safe form of [`double_calls`].
#[must_use]
pub fn calls(call: &str) -> u64 {
    state().calls.get(call).copied().unwrap_or(0)
}

/// Ends the primary context of a device, frees all memory in it, and removes all page-locks.
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

/// Sets how many bytes each device has.
#[unsafe(no_mangle)]
pub extern "C" fn double_limit_device(bytes: usize) {
    state().device_limit = bytes;
}

/// Sets how many bytes of the host may be locked.
#[unsafe(no_mangle)]
pub extern "C" fn double_limit_locks(bytes: usize) {
    state().lock_limit = bytes;
}

/// Sets how long streams wait before each job.
#[unsafe(no_mangle)]
pub extern "C" fn double_delay_us(micros: u64) {
    state().delay = Duration::from_micros(micros);
}

/// Sets how long unlocking host memory takes. Other calls of the driver proceed meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn double_unlock_delay_us(micros: u64) {
    state().unlock_delay = Duration::from_micros(micros);
}

/// Sets the nearest NUMA node of all devices; negative if unknown.
#[unsafe(no_mangle)]
pub extern "C" fn double_numa_node(node: i32) {
    state().numa_node = node;
}

/// Sets whether the driver has a batched copy.
#[unsafe(no_mangle)]
pub extern "C" fn double_batch(has_batch: bool) {
    state().has_batch = has_batch;
}

/// Sets whether streams can wait for values.
#[unsafe(no_mangle)]
pub extern "C" fn double_wait_value(has_wait: bool) {
    state().has_wait = has_wait;
}

/// Sets whether other drivers may get a dmabuf of memory of devices.
#[unsafe(no_mangle)]
pub extern "C" fn double_dmabuf(has_dmabuf: bool) {
    state().has_dmabuf = has_dmabuf;
}

/// Sets what devices see of the writes of network cards by themselves (0 nothing, 100 those to their own memory), and
/// whether they can be told to see all.
#[unsafe(no_mangle)]
pub extern "C" fn double_card_writes(ordering: i32, has_flush: bool) {
    let mut state = state();
    (state.writes_ordering, state.has_flush) = (ordering, has_flush);
}

/// Sets whether all streams share one queue of the device, as real streams may if there are many. A waiting stream
/// then delays all copies.
#[unsafe(no_mangle)]
pub extern "C" fn double_one_queue(has_one_queue: bool) {
    state().has_one_queue = has_one_queue;
}

/// How many bytes of the host are locked.
#[unsafe(no_mangle)]
pub extern "C" fn double_locked() -> usize {
    state().locked.values().sum()
}

/// Makes `count` adjacent allocations of `len` bytes, like mapped virtual memory. Returns zero if there is no memory.
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

/// Clears faults and counts, and restores the initial limits and delays. Memory stays.
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
    (state.has_dmabuf, state.writes_ordering, state.has_flush) = (true, 100, true);
    state.numa_node = -1;
    state.unlock_delay = Duration::ZERO;
}

/// Frees memory of a device.
///
/// # Panics
/// If no allocation starts at this address.
pub fn free(address: u64) {
    let freed = state().allocations.remove(&address);
    assert!(freed.is_some(), "no memory of a device starts at {address:#x}");
}

/// What nvidia-peermem tells a network card about memory of a device: a memory file with these bytes, and where they begin
/// in it.
#[must_use]
pub fn peermem(address: u64, len: usize) -> Option<(OwnedFd, u64)> {
    let page = 4096;
    let start = address - address % page;
    let pages = (address + len as u64).next_multiple_of(page) - start;
    Some((state().export(start, usize::try_from(pages).ok()?)?, address - start))
}
