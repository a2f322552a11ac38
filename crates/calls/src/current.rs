//! The current call of a thread.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mooncake_types::{CallId, TraceParent};

use crate::report::SlowestPeer;
use crate::span::{Trace, TracedStage, now_ns};
use crate::stage::Stage;

/// How many ids a thread takes at once, so that threads do not contend for each.
const BLOCK: u64 = 1024;

/// A peer that took less is not remembered as the slowest one.
const LEAST_SLOW: Duration = Duration::from_millis(1);

thread_local! {
    static CURRENT: CurrentCall = const { CurrentCall::new() };
    static SLOWEST: RefCell<Option<SlowestPeer>> = const { RefCell::new(None) };
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
    static CALLER: Cell<Caller> = const { Cell::new(Caller::None) };
}

/// The span of the application that makes the calls of this thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// There is none: each call begins a trace.
    #[default]
    None,
    /// Calls are parts of it.
    Traced(TraceParent),
    /// Its trace is not recorded, and neither are the calls.
    NotRecorded,
}

/// What a thread has noted of its call so far. Plain cells, since most calls are short. Times are in nanoseconds.
struct CurrentCall {
    /// Of the current call, or of the last one.
    id: Cell<Option<CallId>>,
    is_open: Cell<bool>,
    /// The number of the next id, in a block that this thread has taken.
    next: Cell<u64>,
    stages: [Cell<u64>; Stage::COUNT],
    /// The sum of the stages.
    sum: Cell<u64>,
    /// How long the call has worked, as its own clock says.
    ran: Cell<u64>,
    bytes: Cell<u64>,
    /// Requests to the master.
    requests: Cell<u32>,
    /// Which carrier moved the last operations of the transfer under way.
    carrier: Cell<Stage>,
    /// Whether `SLOWEST` has a peer.
    has_slowest: Cell<bool>,
    /// Whether `TRACE` has the call's trace.
    is_traced: Cell<bool>,
}

/// What a call has noted.
pub(crate) struct Noted {
    pub(crate) id: Option<CallId>,
    pub(crate) stages: [Duration; Stage::COUNT],
    pub(crate) bytes: u64,
    pub(crate) requests: u32,
}

impl CurrentCall {
    const fn new() -> Self {
        Self {
            id: Cell::new(None),
            is_open: Cell::new(false),
            next: Cell::new(0),
            stages: [const { Cell::new(0) }; Stage::COUNT],
            sum: Cell::new(0),
            ran: Cell::new(0),
            bytes: Cell::new(0),
            requests: Cell::new(0),
            carrier: Cell::new(Stage::Own),
            has_slowest: Cell::new(false),
            is_traced: Cell::new(false),
        }
    }

    fn begin(&self, id: Option<CallId>) {
        self.id.set(id);
        self.stages.iter().for_each(|stage| stage.set(0));
        self.sum.set(0);
        self.ran.set(0);
        self.bytes.set(0);
        self.requests.set(0);
    }

    fn draw(&self) -> CallId {
        let mut number = self.next.get();
        if number.is_multiple_of(BLOCK) {
            number = take_block();
        }
        self.next.set(number + 1);
        CallId::numbered(number)
    }

    fn add(&self, stage: Stage, nanos: u64) {
        increase(&self.stages[stage as usize], nanos);
        increase(&self.sum, nanos);
        if self.is_traced.get() {
            add_to_trace(stage, nanos);
        }
    }
}

fn increase(sum: &Cell<u64>, by: u64) {
    sum.set(sum.get().saturating_add(by));
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The first number of a block that no other thread has. Each process begins anywhere, so that its ids are its own.
fn take_block() -> u64 {
    static BLOCKS: OnceLock<AtomicU64> = OnceLock::new();
    // Without randomness of the system, ids still differ within the process.
    let start = || AtomicU64::new(getrandom::u64().unwrap_or(0) / BLOCK * BLOCK);
    BLOCKS.get_or_init(start).fetch_add(BLOCK, Ordering::Relaxed)
}

/// Begins a call with an id of its own. False if the thread has a call already, which then goes on.
pub(crate) fn open() -> bool {
    CURRENT.with(|call| {
        let opens = !call.is_open.replace(true);
        if opens {
            call.begin(Some(call.draw()));
        }
        opens
    })
}

/// Begins a part of the call of another process, if its id is known.
pub(crate) fn open_part(id: Option<CallId>) -> bool {
    CURRENT.with(|call| {
        let opens = !call.is_open.replace(true);
        if opens {
            call.begin(id);
        }
        opens
    })
}

/// Ends the thread's call.
pub(crate) fn close() {
    CURRENT.with(|call| call.is_open.set(false));
    drop(take_slowest());
}

/// How long the thread's call has worked, as its own clock says.
pub(crate) fn time_run() -> Duration {
    CURRENT.with(|call| Duration::from_nanos(call.ran.get()))
}

/// The stages that the thread's call has spent time in, with the nanoseconds.
pub(crate) fn for_each_stage(mut see: impl FnMut(Stage, u64)) {
    CURRENT.with(|call| {
        for stage in Stage::ALL {
            let nanos = call.stages[stage as usize].get();
            if nanos > 0 {
                see(stage, nanos);
            }
        }
    });
}

/// What the thread's call has noted.
pub(crate) fn noted() -> Noted {
    CURRENT.with(|call| Noted {
        id: call.id.get(),
        stages: std::array::from_fn(|stage| Duration::from_nanos(call.stages[stage].get())),
        bytes: call.bytes.get(),
        requests: call.requests.get(),
    })
}

/// Takes the peer that the thread has waited for longest.
pub(crate) fn take_slowest() -> Option<SlowestPeer> {
    let has_slowest = CURRENT.with(|call| call.has_slowest.replace(false));
    if has_slowest { SLOWEST.try_with(RefCell::take).ok().flatten() } else { None }
}

#[cold]
fn add_to_trace(stage: Stage, nanos: u64) {
    let stage = TracedStage::ending_now(stage, Duration::from_nanos(nanos));
    // Fails in a thread that ends, which has no call.
    let _ = TRACE.try_with(|trace| {
        if let Some(trace) = trace.borrow_mut().as_mut() {
            trace.stages.push(stage);
        }
    });
}

/// Traces the call that this thread has just begun: as a part of this one, or of what the application traces.
pub(crate) fn begin_trace(part_of: Option<TraceParent>) {
    let caller = part_of.map_or_else(|| CALLER.get(), Caller::Traced);
    CURRENT.with(|call| {
        // A part has the id of the whole call, which is the id of the caller's span.
        let own = if part_of.is_some() { Some(call.draw()) } else { call.id.get() };
        let Some(span) = own.map(CallId::bits) else { return };
        let (trace, parent) = match caller {
            Caller::None => (u128::from(span) << 64 | u128::from(span), None),
            Caller::Traced(parent) => (parent.trace, Some(parent.span)),
            Caller::NotRecorded => return,
        };
        let at = TraceParent { trace, span };
        let begun = Trace { at, parent, began_ns: now_ns(), stages: Vec::new() };
        let is_begun = TRACE.try_with(|trace| *trace.borrow_mut() = Some(begun)).is_ok();
        call.is_traced.set(is_begun);
    });
}

/// Takes the trace of the thread's call.
pub(crate) fn take_trace() -> Option<Trace> {
    let is_traced = CURRENT.with(|call| call.is_traced.replace(false));
    if is_traced { TRACE.try_with(RefCell::take).ok().flatten() } else { None }
}

/// An id for a span of a call of another process.
pub(crate) fn draw_span() -> u64 {
    CURRENT.with(|call| call.draw().bits())
}

/// Where the trace of the thread's call goes on, for the frames that it sends.
#[must_use]
pub fn trace() -> Option<TraceParent> {
    if !CURRENT.with(|call| call.is_traced.get()) {
        return None;
    }
    TRACE.try_with(|trace| trace.borrow().as_ref().map(|trace| trace.at)).ok().flatten()
}

/// The calls that this thread makes from now on are made by this span of the application.
pub fn set_caller(caller: Caller) {
    CALLER.set(caller);
}

/// The id of the call that this thread works on.
#[must_use]
pub fn current() -> Option<CallId> {
    CURRENT.with(|call| call.id.get().filter(|_| call.is_open.get()))
}

/// The id of the call that this thread works on, or has worked on last.
#[must_use]
pub fn last() -> Option<CallId> {
    CURRENT.with(|call| call.id.get())
}

/// The request id of the frame of a connection with this number. It names the thread's call, if there is one.
#[must_use]
pub fn frame_id(number: u64) -> u64 {
    current().map_or(number, |call| call.frame(number))
}

/// The call has spent this time in a stage.
pub fn note(stage: Stage, took: Duration) {
    CURRENT.with(|call| {
        call.add(stage, nanos(took));
        if matches!(stage, Stage::Master) {
            call.requests.set(call.requests.get().saturating_add(1));
        }
    });
}

/// Does work that is one stage of the call, but for what the work itself notes.
pub fn around<R>(stage: Stage, work: impl FnOnce() -> R) -> R {
    let sum = || CURRENT.with(|call| call.sum.get());
    let (before, began) = (sum(), Instant::now());
    let result = work();
    let by_itself = sum().saturating_sub(before);
    CURRENT.with(|call| call.add(stage, nanos(began.elapsed()).saturating_sub(by_itself)));
    result
}

/// The call has worked for so long, as its own clock says.
pub fn ran(took: Duration) {
    CURRENT.with(|call| increase(&call.ran, nanos(took)));
}

/// The call has waited so long for a peer.
pub fn note_peer(endpoint: &Arc<str>, took: Duration) {
    if took < LEAST_SLOW || current().is_none() {
        return;
    }
    // Fails in a thread that ends, which has no call.
    let _ = SLOWEST.try_with(|slowest| {
        let mut slowest = slowest.borrow_mut();
        if slowest.as_ref().is_none_or(|slowest| slowest.took < took) {
            *slowest = Some(SlowestPeer { endpoint: Arc::clone(endpoint), took });
            CURRENT.with(|call| call.has_slowest.set(true));
        }
    });
}

/// A transfer under way. Its time counts for the carrier that ends last, but for what other stages take of it.
#[derive(Debug)]
pub struct Transfer {
    /// The sum of all stages when it began.
    before: u64,
}

impl Transfer {
    /// Begins one.
    #[must_use]
    pub fn begin() -> Self {
        CURRENT.with(|call| {
            // What is shown in place lies in memory that this process has mapped.
            call.carrier.set(Stage::Own);
            Self { before: call.sum.get() }
        })
    }

    /// It has taken so long to move so many bytes, or to fail.
    pub fn end(self, took: Duration, bytes: u64) {
        CURRENT.with(|call| {
            let others = call.sum.get().saturating_sub(self.before);
            call.add(call.carrier.get(), nanos(took).saturating_sub(others));
            increase(&call.bytes, bytes);
        });
    }
}

/// The last operations of the transfer under way were moved by this carrier.
pub fn carried(by: Stage) {
    CURRENT.with(|call| call.carrier.set(by));
}
