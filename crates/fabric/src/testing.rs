//! For tests: calls of the library that fail on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

static CALLS: Mutex<Calls> = Mutex::new(Calls { wanted: None, made: BTreeMap::new() });

struct Calls {
    /// The function of which a call is to fail, how many of its calls succeed before that, and the error.
    wanted: Option<(&'static str, usize, i32)>,
    made: BTreeMap<&'static str, usize>,
}

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes one call of a function fail with an error number, after `before` others of it. Calls that close something never
/// fail.
pub fn fail(call: &'static str, before: usize, error: i32) {
    calls().wanted = Some((call, before, error));
}

/// Makes no call fail any more. Returns whether one has failed.
pub fn fail_none() -> bool {
    calls().wanted.take().is_none()
}

/// How often each function was called.
#[must_use]
pub fn calls_made() -> BTreeMap<&'static str, usize> {
    calls().made.clone()
}

/// The names of the functions that the library must have.
#[must_use]
pub fn symbols() -> Vec<&'static str> {
    let text = |symbol: &&'static std::ffi::CStr| symbol.to_str().expect("names are ASCII");
    crate::symbols::Functions::SYMBOLS.iter().map(text).collect()
}

/// Loads a library for no use, as often as a test wants.
///
/// # Errors
/// Why it cannot be used.
pub fn try_library(name: &str) -> Result<crate::Version, crate::LoadError> {
    crate::load::load(name).map(|library| library.version)
}

static LOCAL: AtomicBool = AtomicBool::new(false);

/// Domains that are opened from now on register memory of initiators, as those of NICs do.
pub fn register_local_memory() {
    LOCAL.store(true, Ordering::SeqCst);
}

pub(crate) fn wants_local_registration() -> bool {
    LOCAL.load(Ordering::SeqCst)
}

/// The names of the functions that libibverbs must have.
#[must_use]
pub fn verbs_symbols() -> Vec<&'static str> {
    crate::verbs::symbol_names()
}

/// As [`try_library`], for libibverbs.
///
/// # Errors
/// Why it cannot be used.
pub fn try_verbs(name: &str) -> Result<(), crate::VerbsError> {
    crate::verbs::load_verbs(name).map(drop)
}

/// Uses this library for libibverbs, given by its symbols, whatever is asked for. The first that a process uses stays.
///
/// # Panics
/// If a symbol is missing.
pub fn use_verbs(find: fn(&std::ffi::CStr) -> *mut std::ffi::c_void) {
    crate::verbs::take_library(&find);
}

static PRETENDED: Mutex<Option<Option<u32>>> = Mutex::new(None);

/// Memory that is registered from now on lies on this NUMA node; `None`: on one that is not known.
pub fn pretend_node(node: Option<u32>) {
    *PRETENDED.lock().unwrap_or_else(PoisonError::into_inner) = Some(node);
}

pub(crate) fn pretended_node() -> Option<Option<u32>> {
    *PRETENDED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wanted_failure(call: &'static str) -> Option<i32> {
    let mut calls = calls();
    *calls.made.entry(call).or_default() += 1;
    let (wanted, before, error) = calls.wanted.filter(|(wanted, ..)| *wanted == call)?;
    calls.wanted = before.checked_sub(1).map(|before| (wanted, before, error));
    (before == 0).then_some(error)
}

/// How many objects of the library are open: what was opened and not yet closed, and calls that failed to close one.
#[must_use]
pub fn open_objects() -> (usize, usize) {
    let (opened, closed, stuck) = *objects();
    (opened - closed, stuck)
}

static OBJECTS: Mutex<(usize, usize, usize)> = Mutex::new((0, 0, 0));

fn objects() -> MutexGuard<'static, (usize, usize, usize)> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn opened() {
    objects().0 += 1;
}

pub(crate) fn closed(status: i32) {
    match status {
        0 => objects().1 += 1,
        _ => objects().2 += 1,
    }
}
