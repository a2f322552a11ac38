//! What this program is, for reports of faults.

use mooncake_client::{PROTOCOL_VERSION, SOFTWARE_VERSION};

/// The commit that it was built from, as the build script found it.
pub(crate) const COMMIT: &str = env!("MOONCAKE_COMMIT");

/// The version, the commit and the protocol.
pub(crate) fn line() -> String {
    format!("mooncake {SOFTWARE_VERSION} (commit {COMMIT}, protocol {PROTOCOL_VERSION})")
}

/// The version and the commit.
pub(crate) const SHORT: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (commit ", env!("MOONCAKE_COMMIT"), ")");
