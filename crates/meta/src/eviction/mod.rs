//! Eviction: which replica goes when there is no room, and what is learned about uses to choose it well.
//!
//! Of the heads of a segment's queues, [`evict`] takes the one whose [class](crate::objects) and age promise the
//! fewest uses, by what [`Usage`] has learned. [`window`] finds neighbouring ranges that make room together. Entries
//! of evicted ranges get tombstones. If [objects sink](crate::tiers), a range that [`evict`] picks is copied to a
//! disk before it is freed.
//!
//! Invariants: leased, unfinished and hard-pinned objects stay. A group is evicted as a whole. The work of one
//! request is bounded ([`Effort`](crate::effort::Effort)).

mod evict;
mod ghosts;
mod hand;
mod reuse;
mod second_chance;
mod usage;
mod window;

pub(crate) use self::evict::CHOICES;
pub(crate) use self::usage::Usage;
pub(crate) use self::window::{MOST_BARREN_MS, WantedWindow, Window};
