//! Segments and the clients that lend them: [mounts](mount), [heartbeats](heartbeat), [sight], the [membership
//! record](members), and the index of [free room](free_room).
//!
//! A [`Segment`] has its allocator, the owners of its ranges, and their queues. Other modules read it, and change it
//! through [`Segments`]: they reserve and free ranges, and set a [reason](closed) why it takes no puts. A field of
//! the segment says in which medium it lies. [`Segments::next_with_room`] decides which segments are tried for a put.
//!
//! Invariants (`check`): puts go to exactly those segments against which no reason holds. The room of each of these
//! is noted. A mounted segment is a member of the record, and in sight if its client is.

mod addresses;
mod check;
mod clients;
mod closed;
mod domains;
mod effects;
mod free_room;
mod heartbeat;
mod listing;
mod members;
mod mount;
mod nearness;
mod piece;
mod ramp;
mod retired;
mod segment;
mod sight;
mod slots_by_name;
mod table;
mod unmount;

pub(crate) use self::addresses::AddressTable;
pub(crate) use self::clients::Clients;
pub(crate) use self::closed::Closed;
pub(crate) use self::free_room::{Cursor, Room};
pub(crate) use self::members::Members;
pub use self::members::{Effect, Member, RecordedMembers, written_hash, written_hash_of_version};
pub(crate) use self::piece::{Piece, Pieces};
pub(crate) use self::retired::RetiredSegments;
pub(crate) use self::segment::{ReportProgress, Segment};
pub(crate) use self::table::Segments;
