//! The call that a thread works on: its id, and where its time goes.
//!
//! A call of a client works on its caller's thread, and a node serves a request on one thread too. So a thread has one
//! current call. What a layer below notes, by [`note`] and its neighbours, counts for that call; nothing is handed
//! through the layers. A thread without a call notes in vain.
//!
//! The stages of a call are noted where their time is measured anyway, or where the thread waits. When the call ends,
//! they go to the totals of its [`Watch`], which are metrics, into a log line if the call was slow, and to a [`SpanSink`] if the
//! call is traced. Not here: what is a call, which [`Watch::begin`] and [`Watch::serve`] are told.

#![forbid(unsafe_code)]

mod call;
mod current;
mod part;
mod report;
mod span;
mod stage;
mod watch;

pub use call::Call;
pub use current::{
    Caller, Transfer, around, carried, current, frame_id, last, note, note_peer, ran, set_caller,
    trace,
};
pub use part::CallPart;
pub use span::{Fact, Span, SpanSink};
pub use stage::Stage;
pub use watch::{Side, Watch, are_traced};
