//! Places for the library's notes on requests in flight.

use std::cell::UnsafeCell;
use std::ptr;

use crate::abi::Context;

/// A fixed number of places. Each is free, or belongs to a request of a batch.
pub(crate) struct Contexts {
    places: Box<[UnsafeCell<Context>]>,
    /// For each place that is in use, the number of the batch.
    owners: Vec<Option<u64>>,
    free: Vec<usize>,
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

    /// Takes a free place for a request of this batch.
    pub(crate) fn take(&mut self, batch: u64) -> Option<*mut Context> {
        let at = self.free.pop()?;
        self.owners[at] = Some(batch);
        Some(self.places[at].get())
    }

    /// Gives a place back. Returns the batch that it belonged to; `None` if it is no place in use.
    pub(crate) fn give_back(&mut self, context: *mut Context) -> Option<u64> {
        let distance = context.addr().checked_sub(self.places.as_ptr().addr())?;
        let at = distance / size_of::<Context>();
        if distance % size_of::<Context>() != 0 {
            return None;
        }
        let batch = self.owners.get_mut(at)?.take()?;
        self.free.push(at);
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_to_one_request_at_a_time() {
        let mut contexts = Contexts::new(2);
        let (first, second) = (contexts.take(7).unwrap(), contexts.take(8).unwrap());
        assert_ne!(first, second);
        assert_eq!(contexts.take(9), None);
        assert_eq!(contexts.give_back(second), Some(8));
        assert_eq!(contexts.give_back(second), None, "it is free already");
        assert_eq!(contexts.take(9), Some(second));
        assert_eq!(contexts.give_back(first), Some(7));
    }

    #[test]
    fn what_is_no_place_is_not_given_back() {
        let mut contexts = Contexts::new(2);
        let first = contexts.take(1).unwrap();
        let (low, high) = (first.min(contexts.places[0].get()), contexts.places[1].get());
        for wrong in
            [ptr::null_mut(), low.wrapping_byte_add(8), low.wrapping_sub(1), high.wrapping_add(1)]
        {
            assert_eq!(contexts.give_back(wrong), None, "{wrong:?}");
        }
        assert_eq!(contexts.give_back(first), Some(1));
    }
}
