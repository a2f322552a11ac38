use std::time::{SystemTime, UNIX_EPOCH};

use mooncake_types::Epoch;

/// The wall clock in milliseconds, which single masters take as their epoch. Elected masters count from it too, so
/// nodes that change to one obey it.
#[must_use]
pub fn epoch_of_now() -> Epoch {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Epoch(u64::try_from(since.as_millis()).unwrap_or(1).max(1))
}
