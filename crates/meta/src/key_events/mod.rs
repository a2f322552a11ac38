//! Key events: subscribers outside the pool learn which keys have replicas in memory and on disks.
//!
//! Every change of an object's replicas notes its key ([`note_key_change`](crate::Meta::note_key_change)). The leader
//! looks up the tiers when the shell takes the events. So a key that was removed and put again meanwhile gets one
//! event, or none.

mod event;
mod record;

pub(crate) use event::KeyEvents;
pub use event::{KeyEvent, KeyLabels, Tiers};
