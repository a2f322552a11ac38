//! Places that peers share fairly.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A bounded number of places. When all are taken, the next peer gets that of the address which has the most, so that one
/// host with a thousand connections keeps nobody else out.
#[derive(Debug)]
pub struct FairPlaces<E> {
    most: usize,
    next: u64,
    /// By their numbers, and so by age.
    taken: BTreeMap<u64, Place<E>>,
}

#[derive(Debug)]
struct Place<E> {
    address: IpAddr,
    is_busy: bool,
    end: E,
}

impl<E> FairPlaces<E> {
    /// So many places, at least one.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self { most: if most == 0 { 1 } else { most }, next: 0, taken: BTreeMap::new() }
    }

    /// Takes a place, whose number is returned. `end` is what ends it: if another place has to be given up for this one,
    /// that place's is returned. It is the oldest idle one of the address with the most places, or else the oldest.
    pub fn take(&mut self, address: IpAddr, end: E) -> (u64, Option<E>) {
        let given_up = match self.taken.len() < self.most {
            true => None,
            false => self.to_give_up().and_then(|number| self.taken.remove(&number)),
        };
        self.next += 1;
        self.taken.insert(self.next, Place { address, is_busy: false, end });
        (self.next, given_up.map(|place| place.end))
    }

    /// Gives a place back. Nothing happens if it was given up before.
    pub fn give_back(&mut self, number: u64) {
        self.taken.remove(&number);
    }

    /// Whether a request is being answered there.
    pub fn set_busy(&mut self, number: u64, is_busy: bool) {
        if let Some(place) = self.taken.get_mut(&number) {
            place.is_busy = is_busy;
        }
    }

    fn to_give_up(&self) -> Option<u64> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for place in self.taken.values() {
            *counts.entry(place.address).or_default() += 1;
        }
        let most = counts.values().max()?;
        let of_the_most = || self.taken.iter().filter(|(_, place)| counts[&place.address] == *most);
        let idle = of_the_most().find(|(_, place)| !place.is_busy);
        idle.or_else(|| of_the_most().next()).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn who_has_the_most_places_gives_one_up() {
        let mut places = FairPlaces::new(3);
        let mut take = |host: u8, name| places.take(address(host), name).1;
        assert_eq!([take(1, "a"), take(2, "b"), take(1, "c")], [None; 3]);
        assert_eq!(take(3, "d"), Some("a"));
        assert_eq!(take(2, "e"), Some("b"), "of equals it is the oldest");
        assert_eq!(take(2, "f"), Some("c"));
        assert_eq!(take(4, "g"), Some("e"), "host 2 has two");
    }

    #[test]
    fn idle_places_are_given_up_first_and_returned_places_are_free() {
        let mut places = FairPlaces::new(2);
        let (busy, _) = places.take(address(1), "busy");
        let (idle, _) = places.take(address(1), "idle");
        places.set_busy(busy, true);
        assert_eq!(places.take(address(2), "new").1, Some("idle"));
        places.give_back(idle);
        assert_eq!(places.take(address(1), "next").1, Some("new"), "its place was given up before");
        places.give_back(busy);
        assert_eq!(places.take(address(3), "third").1, None);
    }
}
