use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_types::{CallId, LogLimiter};

use crate::call::Call;
use crate::current::for_each_stage;
use crate::report::CallReport;
use crate::stage::Stage;

/// Whose calls they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A client's own calls.
    Client,
    /// Parts of the calls of others, at a node.
    Node,
    /// The same at a master, and its own work.
    Master,
}

impl Side {
    pub(crate) const fn line(self) -> &'static str {
        match self {
            Self::Client => "a call was slow",
            Self::Node => "this node was slow to serve a request",
            Self::Master => "this master was slow to handle a request",
        }
    }
}

/// Sums up where the time of calls goes, and logs those that are slow.
#[derive(Debug)]
pub struct Watch {
    side: Side,
    /// From when on a call is slow; `None`: none is.
    slow: Option<Duration>,
    /// By stage, in nanoseconds.
    stages: [AtomicU64; Stage::COUNT],
    slow_calls: AtomicU64,
    lines: LogLimiter<&'static str>,
}

impl Watch {
    /// How long a call may take before it is logged, unless the configuration says otherwise. Calls of engines take
    /// milliseconds, and what cannot be reached is given up after 0.6 s: one that takes a second was noticed.
    pub const DEFAULT_SLOW: Duration = Duration::from_secs(1);

    /// Calls that take as long as `slow` are slow; none, if it is zero.
    #[must_use]
    pub fn new(side: Side, slow: Duration) -> Self {
        Self {
            side,
            slow: Some(slow).filter(|slow| !slow.is_zero()),
            stages: [const { AtomicU64::new(0) }; Stage::COUNT],
            slow_calls: AtomicU64::new(0),
            lines: LogLimiter::new(),
        }
    }

    /// A call of this thread begins, about so many keys. It ends when the value is dropped, on this thread. If the
    /// thread has a call already, this is a part of it.
    pub fn begin(&self, name: &'static str, items: usize) -> Call<'_> {
        Call::begin(self, name, items)
    }

    /// This thread begins to serve the request of a frame. See [`Watch::begin`].
    pub fn serve(&self, name: &'static str, request_id: u64) -> Call<'_> {
        Call::serve(self, name, CallId::of_frame(request_id))
    }

    /// The request of a frame has taken so long, part of it in stages. It was not handled on one thread alone, or so
    /// shortly that it noted nothing. `what` names it, and says how many keys it is about.
    pub fn handled(
        &self,
        request_id: u64,
        (took, stages): (Duration, &[(Stage, Duration)]),
        what: impl FnOnce() -> (&'static str, usize),
    ) {
        if self.is_slow(took) {
            let id = CallId::of_frame(request_id);
            self.report(&CallReport::of_request(id, what(), (took, stages)));
        }
    }

    /// How many calls were slow.
    #[must_use]
    pub fn slow_calls(&self) -> u64 {
        self.slow_calls.load(Ordering::Relaxed)
    }

    /// The time that all calls have spent in each stage.
    #[must_use]
    pub fn stages(&self) -> [(Stage, Duration); Stage::ALL.len()] {
        Stage::ALL.map(|stage| {
            let nanos = self.stages[stage as usize].load(Ordering::Relaxed);
            (stage, Duration::from_nanos(nanos))
        })
    }

    /// Whether the time of calls is measured, where that is not done anyway.
    pub(crate) fn measures(&self) -> bool {
        self.slow.is_some()
    }

    pub(crate) fn is_slow(&self, took: Duration) -> bool {
        self.slow.is_some_and(|slow| took >= slow)
    }

    /// Adds the stages of the call that this thread has just ended.
    pub(crate) fn add_stages(&self) {
        for_each_stage(|stage, nanos| {
            self.stages[stage as usize].fetch_add(nanos, Ordering::Relaxed);
        });
    }

    #[cold]
    pub(crate) fn report(&self, report: &CallReport) {
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        if let Some(further) = self.lines.admit(report.name(), Instant::now()) {
            report.log(self.side, further);
        }
    }
}
