//! The keys of the seals that a node checks.

use std::io;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use mooncake_types::{Epoch, SealKey};

/// For how long the seals of the leader before are good. Clients forget its routes when they learn of the next leader.
const FORMER_LASTS: Duration = Duration::from_secs(60);

/// The keys of a node's seals. Each leader gets a key of its own, which the node draws. Its leader learns it when the
/// node mounts a segment, and nobody else does.
#[derive(Debug, Default)]
pub struct SealKeys(RwLock<Keys>);

#[derive(Clone, Copy, Debug, Default)]
struct Keys {
    epoch: Epoch,
    current: Option<SealKey>,
    /// The key of the leader before, and until when it is good.
    former: Option<(SealKey, Instant)>,
}

impl SealKeys {
    /// The key for a leader that the node obeys from now on.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn key_for(&self, epoch: Epoch) -> io::Result<SealKey> {
        self.key_at(epoch, Instant::now())
    }

    fn key_at(&self, epoch: Epoch, now: Instant) -> io::Result<SealKey> {
        let mut keys = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = keys.current.filter(|_| epoch <= keys.epoch) {
            return Ok(current);
        }
        let mut key = SealKey([0; 16]);
        getrandom::fill(&mut key.0).map_err(io::Error::other)?;
        let former = keys.current.map(|former| (former, now + FORMER_LASTS));
        *keys = Keys { epoch, current: Some(key), former };
        Ok(key)
    }

    /// The keys whose seals are good.
    pub(crate) fn good(&self) -> impl Iterator<Item = SealKey> + Clone + use<> {
        self.good_at(Instant::now)
    }

    fn good_at<N: Fn() -> Instant>(
        &self,
        now: N,
    ) -> impl Iterator<Item = SealKey> + Clone + use<N> {
        let keys = *self.0.read().unwrap_or_else(PoisonError::into_inner);
        let former = keys.former.filter(|(_, until)| now() < *until).map(|(key, _)| key);
        keys.current.into_iter().chain(former)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leader_has_a_key_and_that_of_the_leader_before_is_good_for_a_while() {
        let (keys, now) = (SealKeys::default(), Instant::now());
        let good = |at| keys.good_at(|| at).collect::<Vec<_>>();
        assert_eq!(good(now), []);
        let key = |epoch| keys.key_at(Epoch(epoch), now).expect("the system has random numbers");
        let first = key(3);
        assert_eq!((key(3), key(2)), (first, first));
        assert_eq!(good(now), [first]);
        let second = key(4);
        assert_ne!(first, second);
        assert_eq!(good(now), [second, first]);
        assert_eq!(good(now + FORMER_LASTS), [second]);
        let third = key(9);
        assert_eq!(good(now), [third, second]);
        assert_eq!(format!("{third:?}"), "SealKey");
    }
}
