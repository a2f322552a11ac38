//! Protocols that callers name and that another serves.

use mooncake_client::no_effect::protocol_warning;

/// A protocol that is served by another is said to be, wherever a caller names one.
pub(crate) fn warn_of_protocol(operation: &str, protocol: &str) {
    if let Some(warning) = protocol_warning(protocol) {
        tracing::warn!("{operation}: {warning}");
    }
}
