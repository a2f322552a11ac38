use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_calls::Span;

/// Most spans that wait to be sent.
const MOST: usize = 8192;

/// How long spans are gathered before they are sent together.
const GATHERED: Duration = Duration::from_secs(1);

/// Spans that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<Waiting>,
    ends: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: Vec<Span>,
    /// Spans that were lost since the last batch, because too many waited.
    lost: u64,
    is_closed: bool,
}

/// Spans to send together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) spans: Vec<Span>,
    pub(crate) lost: u64,
    /// Whether it is the last.
    pub(crate) is_last: bool,
}

impl Queue {
    pub(crate) fn add(&self, spans: Vec<Span>) {
        let mut state = self.lock();
        if state.spans.len() + spans.len() > MOST {
            state.lost += spans.len() as u64;
        } else {
            state.spans.extend(spans);
        }
    }

    /// Waits for the time in which spans are gathered, or until the queue is closed. Takes all.
    pub(crate) fn gather(&self) -> Batch {
        let until = Instant::now() + GATHERED;
        let mut state = self.lock();
        while !state.is_closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.ends.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (spans, lost) = (std::mem::take(&mut state.spans), std::mem::take(&mut state.lost));
        Batch { spans, lost, is_last: state.is_closed }
    }

    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.ends.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
