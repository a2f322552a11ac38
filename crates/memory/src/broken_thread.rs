use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread;

/// A thread that serves the whole process and has panicked. One of its invariants is broken, and no other thread takes
/// over its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenThread {
    /// The thread's name.
    pub thread: String,
    /// The panic message.
    pub reason: String,
}

static FIRST: OnceLock<BrokenThread> = OnceLock::new();

/// The first broken thread of this process, if any. A process that has one should be replaced.
#[must_use]
pub fn broken_thread() -> Option<&'static BrokenThread> {
    FIRST.get()
}

/// Runs a thread's work. Records the thread in [`broken_thread`] if it panics.
pub(crate) fn witness<T>(work: impl FnOnce() -> T) -> T {
    // Nothing reads the state of `work` after a panic.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let thread = thread::current().name().unwrap_or("a thread").to_owned();
        let _ = FIRST.set(BrokenThread { thread, reason: message(&*panic) });
        resume_unwind(panic)
    })
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked").to_owned()
}

#[cfg(test)]
mod tests {
    use std::thread::Builder;

    use super::*;
    use crate::spawn_unpinned;

    #[test]
    fn the_first_thread_that_panics_is_remembered_with_its_reason() {
        let panic_as = |name: &str, reason: &'static str| {
            let thread = Builder::new().name(name.to_owned());
            spawn_unpinned(thread, move || panic!("{reason}")).expect("a thread").join()
        };
        let well = spawn_unpinned(Builder::new(), || 7).expect("a thread").join();
        assert_eq!(well.ok(), Some(7));
        panic_as("one", "an invariant is broken").expect_err("it panics");
        panic_as("two", "another").expect_err("it panics");
        let thread = "one".to_owned();
        let expected = BrokenThread { thread, reason: "an invariant is broken".to_owned() };
        assert_eq!(broken_thread(), Some(&expected));
    }
}
