//! Detaches all views before a fork, so that a child's views do not change later.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::detach::Detach;
use crate::process_id;

/// All mapped views of this process, by address.
static VIEWS: Mutex<BTreeMap<usize, Detach>> = Mutex::new(BTreeMap::new());

/// Registers a view before it is handed out.
pub(crate) fn enter(address: usize, view: Detach) {
    static HOOK: Once = Once::new();
    // SAFETY: the hooks are functions of this program, which is never unloaded before the process ends.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(after));
    });
    // If detaching fails at the fork, the child has no memory there, which is better than memory that changes.
    view.keep_from_children();
    views().insert(address, view);
}

/// Unregisters a view before it is unmapped. A child does not use the list.
pub(crate) fn leave(address: usize, process: u32) {
    if process_id() == process {
        views().remove(&address);
    }
}

fn views() -> MutexGuard<'static, BTreeMap<usize, Detach>> {
    VIEWS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, BTreeMap<usize, Detach>>>> =
        const { RefCell::new(None) };
}

/// Runs on the forking thread. It holds the lock, so the list does not change until the child exists.
extern "C" fn before() {
    let views = views();
    for view in views.values() {
        // If this fails, the child does not inherit the mapping.
        let _ = view.run();
    }
    // A thread that is ending has no thread-locals any more; the lock is then not held during the fork.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(views));
}

/// Runs on the forking thread, in parent and child.
extern "C" fn after() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}
