use std::thread;
use std::time::{Duration, Instant};

/// Polls until `ask` returns a value.
///
/// # Panics
/// `ask` returned none within the time.
pub(crate) fn wait_for<T>(what: &str, within: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        thread::sleep(Duration::from_millis(5));
    }
}
