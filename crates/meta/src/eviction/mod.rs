//! Eviction: which replica goes when there is no room, and what is learned about the use of objects to choose well.
//!
//! Of the heads of a segment's queues [`evict`] takes the one whose [class](crate::objects) and age promise the fewest uses, by
//! what [`Usage`] has learned. [`window`] finds neighbours that make room together. What is evicted gets tombstones. Where
//! [objects sink](crate::tiers), a range that [`evict`] picks is offloaded before it is freed.
//!
//! Invariants: leased, unfinished and hard-pinned objects stay. A group goes as a whole. The work of one request is bounded
//! ([`Effort`]).

mod effort;
mod evict;
mod ghosts;
mod hand;
mod reuse;
mod second_chance;
mod usage;
mod window;

pub(crate) use self::effort::Effort;
pub(crate) use self::evict::CHOICES;
pub(crate) use self::usage::Usage;
pub(crate) use self::window::{MOST_BARREN_MS, WantedWindow, Window};
