//! The call that a thread works on: its id, and where its time goes.
//!
//! A call of a client works on its caller's thread, and a node serves a request on one thread too. So a thread has one
//! current call. What a layer below notes, by [`note`] and its neighbours, counts for that call; nothing is handed
//! through the layers. A thread without a call notes in vain.
//!
//! The stages of a call are noted where their time is measured anyway, or where the thread waits. When the call ends,
//! they go to the totals of its [`Watch`], which are metrics, and into a log line if the call was slow. Not here:
//! what is a call, which [`Watch::begin`] and [`Watch::serve`] are told.

#![forbid(unsafe_code)]

mod call;
mod current;
mod report;
mod stage;
mod watch;

pub use call::Call;
pub use current::{Transfer, around, carried, current, frame_id, last, note, note_peer, ran};
pub use stage::Stage;
pub use watch::{Side, Watch};
