//! NICs of libibverbs (`libibverbs.so.1`, rdma-core 33 or later): InfiniBand and RoCE.
//!
//! A device is all NICs that are used together. A connection with a peer has an end at each of them, or more than one
//! ([`link`]). Ends are queue pairs of the kind RC, one at each side, made for each other. A request that fails breaks its
//! end, which is then destroyed: the NIC touches no memory for it any more. What it had in flight goes by the other ends of
//! the connection. When the target destroys its end, the NIC refuses all that the peer has under way.
//!
//! A thread is told when ports fail and work again ([`events`]). Ends at a port that has failed are destroyed at once.

mod abi;
mod address;
mod call;
mod device;
mod device_memory;
mod end;
mod error;
mod events;
mod find;
mod gid;
mod link;
mod links;
mod list;
mod load;
mod nic;
mod options;
mod port;
mod ports;
mod queue;
mod symbols;

pub(crate) use address::{EndAddress, FORMAT};
pub(crate) use device::VerbsDevice;
pub use error::{VariableError, VerbsError};
pub use gid::{GidKind, PortGid};
#[cfg(feature = "testing")]
pub(crate) use load::{load as load_verbs, take_library};
pub use options::VerbsOptions;
pub use ports::{VerbsNic, VerbsPort};

/// The names of all functions.
#[cfg(feature = "testing")]
pub(crate) fn symbol_names() -> Vec<&'static str> {
    let text = |symbol: &&'static std::ffi::CStr| symbol.to_str().expect("names are ASCII");
    symbols::Functions::SYMBOLS.iter().map(text).collect()
}

/// The provider of these devices, and its two kinds of links.
pub(crate) const PROVIDER: &str = "libibverbs";
const ETHERNET: &str = "RoCE";
const INFINIBAND: &str = "InfiniBand";
