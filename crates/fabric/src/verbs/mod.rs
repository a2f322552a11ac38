//! NICs of libibverbs (`libibverbs.so.1`, rdma-core 33 or later): InfiniBand and RoCE.
//!
//! Peers are connected in pairs of ends: queue pairs of the kind RC, one at each side, made for each other. A request
//! that fails breaks its end, which is then destroyed: the NIC touches no memory for it any more. When the target
//! destroys its end, the NIC refuses all that the peer has under way.

mod abi;
mod address;
mod call;
mod device;
mod end;
mod error;
mod find;
mod gid;
mod load;
mod options;
mod port;
mod queue;
mod symbols;

pub(crate) use address::{EndAddress, FORMAT};
pub(crate) use device::VerbsDevice;
pub use error::{VariableError, VerbsError};
pub use find::{VerbsNic, VerbsPort};
pub use gid::{GidKind, PortGid};
#[cfg(feature = "testing")]
pub(crate) use load::{load as load_verbs, take_library};
pub use options::VerbsOptions;

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
