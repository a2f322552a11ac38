//! Views and forks: a child must not find bytes that change under it, so views are detached before it is made.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use crate::detach::Detach;
use crate::process_id;

/// All views of this process by their addresses; those in it are mapped.
static VIEWS: Mutex<BTreeMap<usize, Detach>> = Mutex::new(BTreeMap::new());

/// Puts a view on the list, before anybody has it.
pub(crate) fn enter(address: usize, view: Detach) {
    static HOOK: Once = Once::new();
    // SAFETY: the hooks are functions of this program, which is never unloaded before the process ends.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(after));
    });
    // For the case that it cannot be detached: better no memory there than memory that changes.
    view.keep_from_children();
    views().insert(address, view);
}

/// Takes a view off the list, before it is unmapped. A child has no use for the list.
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

/// On the thread that forks. The list stays as it is until the child is made.
extern "C" fn before() {
    let views = views();
    for view in views.values() {
        // One that cannot be is not there for the child.
        let _ = view.run();
    }
    // A thread that is ending has no such place any more; then the list is not held.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(views));
}

/// On the same thread, in parent and child.
extern "C" fn after() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}
