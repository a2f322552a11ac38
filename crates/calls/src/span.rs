use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mooncake_types::TraceParent;

use crate::report::CallReport;
use crate::stage::Stage;
use crate::watch::Side;

/// A span of a trace: a call, or one of its stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its trace, and its own id.
    pub at: TraceParent,
    /// The id of the span above it, if there is one.
    pub parent: Option<u64>,
    /// The call or the stage.
    pub name: &'static str,
    /// Whose part of the call it is.
    pub side: Side,
    /// Whether it is a stage.
    pub is_stage: bool,
    /// When it began, in nanoseconds of Unix time.
    pub began_ns: u64,
    /// When it ended, likewise.
    pub ended_ns: u64,
    /// What else is known of it.
    pub facts: Vec<(&'static str, Fact)>,
}

/// What is known of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// Takes spans of calls, without making these wait.
pub trait SpanSink: Debug + Send + Sync {
    /// Takes the spans of a call that has ended.
    fn take(&self, spans: Vec<Span>);
}

/// A stage that a call has spent time in, once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TracedStage {
    pub(crate) stage: Stage,
    pub(crate) ended_ns: u64,
    pub(crate) took: Duration,
}

/// A call that is traced.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The trace, and the id of the call's span, whose lower bits are zero.
    pub(crate) at: TraceParent,
    /// The span that the call is a part of.
    pub(crate) parent: Option<u64>,
    pub(crate) began_ns: u64,
    pub(crate) stages: Vec<TracedStage>,
}

/// The time now, in nanoseconds of Unix time.
pub(crate) fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    nanos(since)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl TracedStage {
    /// A stage that ends now.
    pub(crate) fn ending_now(stage: Stage, took: Duration) -> Self {
        Self { stage, ended_ns: now_ns(), took }
    }
}

impl Trace {
    /// The span of the call, and those of its stages.
    pub(crate) fn spans(&self, side: Side, report: &CallReport) -> Vec<Span> {
        let call = Span {
            at: self.at,
            parent: self.parent,
            name: report.name(),
            side,
            is_stage: false,
            began_ns: self.began_ns,
            ended_ns: now_ns(),
            facts: report.facts(),
        };
        // The lower bits of the call's id are zero.
        let stages = (1..=0xFFFF).zip(&self.stages).map(|(number, it)| Span {
            at: TraceParent { span: self.at.span | number, ..self.at },
            parent: Some(self.at.span),
            name: it.stage.name(),
            side,
            is_stage: true,
            began_ns: it.ended_ns.saturating_sub(nanos(it.took)),
            ended_ns: it.ended_ns,
            facts: Vec::new(),
        });
        std::iter::once(call).chain(stages).collect()
    }
}
