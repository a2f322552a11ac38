use std::sync::{Arc, Mutex, PoisonError};

/// Most reasons that are remembered; further ones are not logged.
const MAX_REASONS: usize = 64;

/// Says once for each reason that peers are reached by a slower way than the one that could be expected, or that memory is
/// copied.
#[derive(Debug, Default)]
pub(crate) struct Fallbacks {
    warned: Mutex<Vec<(&'static str, String)>>,
}

impl Fallbacks {
    /// Peers for this reason are not reached by `way`. The first of them is named.
    pub(crate) fn warn(&self, way: &'static str, endpoint: &Arc<str>, reason: &str) {
        if self.is_new(way, reason) {
            tracing::warn!(peer = %endpoint, %reason, "{way} does not reach a peer, so a slower way does");
        }
    }

    /// Memory that callers have registered is not used in place for this reason.
    pub(crate) fn warn_of_copies(&self, reason: &str) {
        if self.is_new("memory", reason) {
            tracing::warn!(%reason, "registered memory of the application is copied, since the device does not take it");
        }
    }

    fn is_new(&self, way: &'static str, reason: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = warned.iter().any(|(known, why)| *known == way && why == reason);
        let is_new = !is_known && warned.len() < MAX_REASONS;
        if is_new {
            warned.push((way, reason.to_owned()));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_for_each_way_and_only_so_many() {
        let fallbacks = Fallbacks::default();
        assert!(fallbacks.is_new("shm", "another user"));
        assert!(!fallbacks.is_new("shm", "another user"));
        assert!(fallbacks.is_new("tcp", "another user"));
        assert!(fallbacks.is_new("shm", "another namespace"));
        let said = (0..100).filter(|number| fallbacks.is_new("shm", &number.to_string())).count();
        assert_eq!(said, MAX_REASONS - 3);
    }
}
