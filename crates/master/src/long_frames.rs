//! The memory of frames that have arrived in part, over all connections.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;

/// What is shorter is not counted: a connection has so much in any case.
const SHORT_BYTES: usize = 64 << 10;

/// Most bytes of a host, and of all.
const MAX_BYTES: (usize, usize) = (256 << 20, 1 << 30);

/// How many bytes of longer frames are held, for each host. Processes of this host count as one that has no address.
#[derive(Debug, Default)]
pub(crate) struct LongFrames {
    of_hosts: RefCell<HashMap<Option<IpAddr>, usize>>,
}

/// The part of one connection, which is given back on drop.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    frames: Rc<LongFrames>,
    host: Option<IpAddr>,
    bytes: usize,
}

impl HeldBytes {
    /// The part of a connection from this host, which holds nothing yet.
    pub(crate) fn of(frames: &Rc<LongFrames>, host: Option<IpAddr>) -> Self {
        Self { frames: Rc::clone(frames), host, bytes: 0 }
    }

    /// Counts so many bytes, instead of those before. False if that is too much.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let bytes = if bytes > SHORT_BYTES { bytes } else { 0 };
        if bytes == self.bytes {
            return true;
        }
        let mut of_hosts = self.frames.of_hosts.borrow_mut();
        let of_host = of_hosts.entry(self.host).or_default();
        *of_host = *of_host - self.bytes + bytes;
        let (own, grows) = (*of_host, bytes > self.bytes);
        self.bytes = bytes;
        if own == 0 {
            of_hosts.remove(&self.host);
        }
        let (most_of_host, most) = MAX_BYTES;
        !grows || own <= most_of_host && of_hosts.values().sum::<usize>() <= most
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 32 << 20;

    #[test]
    fn a_host_that_holds_too_much_gets_no_more_and_others_do() {
        let frames = Rc::new(LongFrames::default());
        let host = |last: u8| Some(IpAddr::from([10, 0, 0, last]));
        let mut held: Vec<HeldBytes> = (0..9).map(|_| HeldBytes::of(&frames, host(1))).collect();
        let fits: Vec<bool> = held.iter_mut().map(|it| it.set(PART)).collect();
        assert_eq!(fits, [[true; 8].as_slice(), &[false]].concat());
        let mut other = HeldBytes::of(&frames, host(2));
        assert!(other.set(PART));
        held.truncate(1);
        assert_eq!(frames.of_hosts.borrow()[&host(1)], PART);
        assert!(held[0].set(SHORT_BYTES), "what is short counts for nothing");
        assert_eq!(*frames.of_hosts.borrow(), HashMap::from([(host(2), PART)]));
    }

    #[test]
    fn all_hosts_together_hold_no_more_than_a_bound() {
        let frames = Rc::new(LongFrames::default());
        let each = |last: u8| HeldBytes::of(&frames, Some(IpAddr::from([10, 0, 1, last])));
        let mut held = [1, 2, 3, 4, 5].map(each);
        let fits = held.each_mut().map(|it| it.set(8 * PART));
        assert_eq!(fits, [true, true, true, true, false]);
    }
}
