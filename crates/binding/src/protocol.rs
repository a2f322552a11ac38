//! Warns of protocols that this build serves by another protocol.

use mooncake_client::no_effect::protocol_warning;

/// Logs a warning if this build serves `protocol` by another protocol, like 'rdma' by 'tcp'.
pub fn warn_of_protocol(operation: &str, protocol: &str) {
    if let Some(warning) = protocol_warning(protocol) {
        tracing::warn!("{operation}: {warning}");
    }
}
