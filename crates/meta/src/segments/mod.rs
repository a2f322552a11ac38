//! Segments and the clients that lend them: mounts, heartbeats, sight, the membership record, and which segment has room.
//!
//! A segment takes puts unless there is a reason against it: one set of them, with one setter
//! ([`Segments::set`]). What lies on a segment out of sight is neither readable nor lost.

mod addresses;
mod clients;
mod closed;
mod free_room;
mod listing;
mod members;
mod mount;
mod retired;
mod sight;
mod table;

pub(crate) use self::addresses::AddressTable;
pub(crate) use self::clients::Clients;
pub(crate) use self::closed::Closed;
pub(crate) use self::free_room::{Cursor, Room};
pub(crate) use self::members::Members;
pub use self::members::{Effect, Member, Record};
pub(crate) use self::retired::Disowned;
pub(crate) use self::table::{Progress, Segment, Segments};
