//! The side that asks: lanes to peers, and the exchanges that run over them on the caller's own thread.

mod ask;
mod dial;
mod directory;
mod drive;
mod inbound;
mod lane;
mod outbound;
mod peers;
mod pulse;
mod read;
mod shares;
mod stepwise;
mod write;

pub(crate) use ask::{AskExchange, Question};
pub(crate) use dial::open;
pub(crate) use drive::{Exchange, Patience, drive};
pub(crate) use peers::{Lease, Peers};
pub(crate) use pulse::Pulse;
pub(crate) use read::ReadExchange;
pub(crate) use shares::Purpose;
pub(crate) use write::WriteExchange;
