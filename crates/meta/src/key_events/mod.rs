//! Events for subscribers outside of the pool: the replicas of which keys moved to other tiers, or went.
//!
//! Every change of an object's replicas names its key ([`note_key_change`](crate::Meta::note_key_change)). The tiers are looked
//! up when the events are taken. So a key that was removed and put again meanwhile gets one event, or none.

mod event;
mod record;

pub(crate) use event::KeyEvents;
pub use event::{KeyEvent, Tiers};
