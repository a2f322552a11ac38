//! The client side: lanes to peers, and the calls that run over them on the caller's own thread.

mod ask;
mod dial;
mod directory;
mod drive;
mod inbound;
mod lane;
mod outbound;
mod peer;
mod peer_call;
mod peers;
mod read;
mod shares;
mod silence_watch;
mod stepwise;
mod write;

pub(crate) use ask::Ask;
pub(crate) use dial::open;
pub(crate) use drive::{CallLimits, drive, set_off};
#[cfg(test)]
pub(crate) use peer::Lease;
pub(crate) use peer_call::{PeerCall, Question};
pub(crate) use peers::Peers;
pub(crate) use read::Read;
pub(crate) use shares::Purpose;
pub(crate) use silence_watch::SilenceWatch;
pub(crate) use write::Write;
