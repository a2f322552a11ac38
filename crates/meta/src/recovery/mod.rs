//! Recovery: what a new leader hears from the nodes, what it believes of that, and which requests it answers until then.

mod attributes;
mod inventory;
mod outrank;
mod pieces;
mod recover;
mod replacing;
mod replay;
mod review;
mod shadow;
mod suspension;

pub(crate) use self::recover::Recovery;
pub(crate) use self::review::Reviews;
pub use self::shadow::{Senseless, Shadow};
