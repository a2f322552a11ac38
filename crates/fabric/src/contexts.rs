//! Places for the library's notes on requests in flight.

use std::cell::UnsafeCell;
use std::ptr;

use crate::abi::Context;

/// A fixed number of places. Each is free, or belongs to requests of a batch.
pub(crate) struct Contexts {
    places: Box<[UnsafeCell<Context>]>,
    owners: Vec<Option<Posted>>,
    free: Vec<usize>,
}

/// Requests that were posted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) batch: u64,
    /// The first of them in the batch.
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// How often they were lost before.
    pub(crate) losses: u8,
}

// SAFETY: no reference to a place is ever made; the library writes them from any thread.
unsafe impl Send for Contexts {}

impl Contexts {
    pub(crate) fn new(count: usize) -> Contexts {
        let empty = || UnsafeCell::new(Context { internal: [ptr::null_mut(); 8] });
        Contexts {
            places: (0..count).map(|_| empty()).collect(),
            owners: vec![None; count],
            free: (0..count).rev().collect(),
        }
    }

    /// Takes a free place for requests that are about to be posted; how many, [`Contexts::note`] says afterwards.
    pub(crate) fn take(&mut self, posted: Posted) -> Option<*mut Context> {
        let at = self.free.pop()?;
        self.owners[at] = Some(posted);
        Some(self.places[at].get())
    }

    /// Notes how many requests were posted with a place.
    pub(crate) fn note(&mut self, context: *mut Context, count: usize) {
        if let Some(Some(posted)) = self.place_of(context).map(|at| &mut self.owners[at]) {
            posted.count = count;
        }
    }

    /// Gives a place back. Returns the requests that it belonged to; `None` if it is no place in use.
    pub(crate) fn give_back(&mut self, context: *mut Context) -> Option<Posted> {
        let at = self.place_of(context)?;
        let posted = self.owners[at].take()?;
        self.free.push(at);
        Some(posted)
    }

    fn place_of(&self, context: *mut Context) -> Option<usize> {
        let distance = context.addr().checked_sub(self.places.as_ptr().addr())?;
        let at = distance / size_of::<Context>();
        let is_place = distance % size_of::<Context>() == 0 && at < self.owners.len();
        is_place.then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(batch: u64) -> Posted {
        Posted { batch, first: 0, count: 0, losses: 0 }
    }

    #[test]
    fn a_place_is_given_to_one_chain_at_a_time() {
        let mut contexts = Contexts::new(2);
        let (first, second) = (contexts.take(of(7)).unwrap(), contexts.take(of(8)).unwrap());
        assert_ne!(first, second);
        assert_eq!(contexts.take(of(9)), None);
        contexts.note(second, 3);
        assert_eq!(contexts.give_back(second), Some(Posted { count: 3, ..of(8) }));
        assert_eq!(contexts.give_back(second), None, "it is free already");
        assert_eq!(contexts.take(of(9)), Some(second));
        assert_eq!(contexts.give_back(first), Some(of(7)));
    }

    #[test]
    fn what_is_no_place_is_not_given_back() {
        let mut contexts = Contexts::new(2);
        let first = contexts.take(of(1)).unwrap();
        let (low, high) = (first.min(contexts.places[0].get()), contexts.places[1].get());
        for wrong in
            [ptr::null_mut(), low.wrapping_byte_add(8), low.wrapping_sub(1), high.wrapping_add(1)]
        {
            contexts.note(wrong, 1);
            assert_eq!(contexts.give_back(wrong), None, "{wrong:?}");
        }
        assert_eq!(contexts.give_back(first), Some(of(1)));
    }
}
