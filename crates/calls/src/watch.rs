use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_types::{LogLimiter, TraceParent};

use crate::call::Call;
use crate::current::{draw_span, for_each_stage};
use crate::part::CallPart;
use crate::report::CallReport;
use crate::span::{SpanSink, Trace, TracedStage, now_ns};
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

/// Whether a watch of this process traces the calls of clients.
static ARE_TRACED: AtomicBool = AtomicBool::new(false);

/// Whether this process traces calls of clients, so that it matters who makes them: see
/// [`set_caller`](crate::set_caller).
#[must_use]
pub fn are_traced() -> bool {
    ARE_TRACED.load(Ordering::Relaxed)
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
    /// Takes the spans of calls, if they are traced.
    pub(crate) sink: Option<Arc<dyn SpanSink>>,
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
            sink: None,
        }
    }

    /// The same, for calls that are traced: their spans go there, if there is a sink.
    #[must_use]
    pub fn traced(self, sink: Option<Arc<dyn SpanSink>>) -> Self {
        if self.side == Side::Client && sink.is_some() {
            ARE_TRACED.store(true, Ordering::Relaxed);
        }
        Self { sink, ..self }
    }

    /// A call of this thread begins, about so many keys. It ends when the value is dropped, on this thread. If the
    /// thread has a call already, this is a part of it.
    pub fn begin(&self, name: &'static str, items: usize) -> Call<'_> {
        Call::begin(self, name, items)
    }

    /// This thread begins to serve the request of a frame. See [`Watch::begin`].
    pub fn serve(&self, name: &'static str, part: CallPart) -> Call<'_> {
        Call::serve(self, name, part)
    }

    /// The request of a frame has taken so long, part of it in stages. It was not handled on one thread alone, or so
    /// shortly that it noted nothing. `what` names it, and says how many keys it is about.
    pub fn handled(
        &self,
        part: CallPart,
        (took, stages): (Duration, &[(Stage, Duration)]),
        what: impl FnOnce() -> (&'static str, usize),
    ) {
        let traced = part.trace.filter(|_| self.sink.is_some());
        if self.is_slow(took) || traced.is_some() {
            let report = CallReport::of_request(part.id(), what(), (took, stages));
            let trace = traced.map(|caller| trace_of_request(caller, took, stages));
            self.report(&report, trace.as_ref());
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

    /// Logs a call that was slow, and hands on the spans of one that is traced.
    #[cold]
    pub(crate) fn report(&self, report: &CallReport, trace: Option<&Trace>) {
        if let (Some(sink), Some(trace)) = (&self.sink, trace) {
            sink.take(trace.spans(self.side, report));
        }
        if !self.is_slow(report.took()) {
            return;
        }
        self.slow_calls.fetch_add(1, Ordering::Relaxed);
        if let Some(further) = self.lines.admit(report.name(), Instant::now()) {
            report.log(self.side, further);
        }
    }
}

/// The trace of a request that has just ended, and noted nothing on the way. Its stages came one after the other.
fn trace_of_request(caller: TraceParent, took: Duration, stages: &[(Stage, Duration)]) -> Trace {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let began_ns = now_ns().saturating_sub(nanos(took));
    let mut ended_ns = began_ns;
    let traced = |&(stage, took): &(Stage, Duration)| {
        ended_ns = ended_ns.saturating_add(nanos(took));
        TracedStage { stage, ended_ns, took }
    };
    let stages = stages.iter().map(traced).collect();
    let at = TraceParent { span: draw_span(), ..caller };
    Trace { at, parent: Some(caller.span), began_ns, stages }
}
