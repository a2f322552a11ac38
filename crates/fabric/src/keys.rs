//! The keys of a piece of a peer's memory: one, or one for each NIC of the peer.

/// Most NICs of a device.
pub const MAX_NICS: usize = 8;

/// By which keys a piece of memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// One, whichever way a request takes.
    One(u64),
    /// One for each NIC.
    Each(NicKeys),
}

/// Keys of the NICs of one device. A NIC that did not take the memory has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NicKeys {
    /// By the NICs' places in the device.
    keys: [u32; MAX_NICS],
    count: u8,
    /// Which NICs have one: a bit for each.
    has: u8,
    /// Which NICs are nearest to the memory; none if that is not known.
    near: u8,
}

impl NicKeys {
    /// The keys of up to [`MAX_NICS`] NICs.
    pub(crate) fn new(each: impl IntoIterator<Item = Option<u32>>, near: u8) -> NicKeys {
        let mut all = NicKeys { keys: [0; MAX_NICS], count: 0, has: 0, near };
        for (at, key) in each.into_iter().take(MAX_NICS).enumerate() {
            all.count += 1;
            if let Some(key) = key {
                all.keys[at] = key;
                all.has |= 1 << at;
            }
        }
        all.near &= all.has;
        all
    }

    /// The key of a NIC, if it has one.
    pub(crate) fn of(&self, nic: usize) -> Option<u32> {
        let has = nic < MAX_NICS && self.has & (1 << nic) != 0;
        has.then(|| self.keys[nic])
    }

    /// The keys, in the order of the NICs.
    pub(crate) fn each(&self) -> impl Iterator<Item = Option<u32>> {
        (0..usize::from(self.count)).map(|nic| self.of(nic))
    }

    /// How many NICs the device has.
    pub(crate) fn count(&self) -> usize {
        self.count.into()
    }

    /// Which NICs have a key: a bit for each.
    pub(crate) fn has(&self) -> u8 {
        self.has
    }

    /// Which NICs are nearest to the memory: a bit for each; none if that is not known.
    pub(crate) fn near(&self) -> u8 {
        self.near
    }

    /// Whether a NIC is one of the nearest, or it is not known which are.
    pub(crate) fn is_near(&self, nic: usize) -> bool {
        self.near == 0 || nic < MAX_NICS && self.near & (1 << nic) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_has_a_key_or_none() {
        let keys = NicKeys::new([Some(7), None, Some(0)], 0b110);
        assert_eq!([0, 1, 2, 3, 8].map(|nic| keys.of(nic)), [Some(7), None, Some(0), None, None]);
        assert_eq!(keys.each().collect::<Vec<_>>(), [Some(7), None, Some(0)]);
        assert_eq!([0, 1, 2, 9].map(|nic| keys.is_near(nic)), [false, false, true, false]);
        let unknown = NicKeys::new([Some(7), Some(8)], 0);
        assert!(unknown.is_near(0) && unknown.is_near(1));
        assert_eq!(NicKeys::new([Some(1); 20], 0xff).count(), MAX_NICS);
    }
}
