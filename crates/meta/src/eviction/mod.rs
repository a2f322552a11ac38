//! Eviction: which replica goes when there is no room, and what is learned about the use of objects to choose well.
//!
//! The replica goes whose class and age promise the fewest uses. The work of one request is bounded ([`Effort`]).

mod class;
mod evict;
mod ghosts;
mod reuse;
mod window;

pub(crate) use self::class::{CLASSES, Class, Stamp};
pub(crate) use self::evict::CHOICES;
pub(crate) use self::ghosts::Ghosts;
pub(crate) use self::reuse::Reuse;
pub(crate) use self::window::{Effort, MOST_BARREN_MS, Wanted, Window};
