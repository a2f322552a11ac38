use std::fmt;
use std::sync::Arc;

use crate::{RawSlice, Region};

/// Bytes of a region, and the region that keeps them mapped. It may be passed to other threads and outlive the call
/// that made it. Making one counts a reference; reading its slice costs nothing.
#[derive(Clone)]
pub struct HeldSlice {
    /// Valid as long as `region`. It leaves this type only as a borrow of it.
    slice: RawSlice<'static>,
    region: Arc<Region>,
}

impl HeldSlice {
    /// The `len` bytes at `offset` of the region, which must lie within it.
    pub(crate) fn new(region: Arc<Region>, offset: usize, len: usize) -> HeldSlice {
        let slice = region.whole().sub(offset, len);
        // SAFETY: the region keeps the bytes mapped, and every slice that is given out borrows this value. The other
        // terms are those of the region's own slice.
        let slice = unsafe { RawSlice::new(slice.as_ptr(), slice.len()) };
        HeldSlice { slice, region }
    }

    /// All bytes of a region.
    #[must_use]
    pub fn whole(region: Arc<Region>) -> HeldSlice {
        let len = region.whole().len();
        HeldSlice::new(region, 0, len)
    }

    /// Slices as one, of a region that holds all of theirs. `None` if a slice does not begin where the one before it
    /// ends, or there is none.
    #[must_use]
    pub fn joined(mut slices: Vec<HeldSlice>) -> Option<HeldSlice> {
        if slices.len() < 2 {
            return slices.pop();
        }
        let each = slices.iter().map(|it| Some(it.slice));
        let slice = each.reduce(|all, next| all?.joined(next?))??;
        let region = Region::lent(slice, Box::new(slices)).ok()?;
        Some(HeldSlice { slice, region: Arc::new(region) })
    }

    /// The `len` bytes that start `from` bytes in.
    ///
    /// # Panics
    /// If they do not lie within this slice.
    #[must_use]
    pub fn sub(&self, from: usize, len: usize) -> HeldSlice {
        HeldSlice { slice: self.slice.sub(from, len), region: Arc::clone(&self.region) }
    }

    /// The bytes.
    #[must_use]
    pub fn raw(&self) -> RawSlice<'_> {
        self.slice
    }

    /// Their region.
    #[must_use]
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// The bytes for a region that keeps this value beside them.
    pub(crate) fn outliving_keeper(&self) -> RawSlice<'static> {
        self.slice
    }
}

impl fmt::Debug for HeldSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.slice.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_held_outlive_the_last_other_holder_of_their_region() {
        let region = Arc::new(Region::anonymous(8192).expect("two pages"));
        let held = region.hold(4090, 6).expect("they lie within");
        region.slice(4090, 6).expect("they lie within").write_from(b"before");
        let part = Region::lent_part(held.clone(), Box::new(())).expect("it has bytes");
        drop(region);
        assert_eq!((held.raw().to_vec(), held.len()), (b"before".to_vec(), 6));
        drop(held);
        assert_eq!(part.whole().to_vec(), b"before");
    }

    #[test]
    fn slices_that_adjoin_are_held_together() {
        let region = Arc::new(Region::anonymous(4096).expect("a page"));
        let part = |from, len| region.hold(from, len).expect("it lies within");
        region.whole().sub(10, 5).write_from(b"01234");
        let joined = HeldSlice::joined(vec![part(10, 2), part(12, 1), part(13, 2)]);
        let joined = joined.expect("they adjoin");
        assert_eq!(Arc::strong_count(&region), 4);
        assert_eq!(joined.sub(1, 3).raw().to_vec(), b"123");
        assert!(HeldSlice::joined(vec![part(10, 2), part(13, 1)]).is_none());
        assert!(HeldSlice::joined(Vec::new()).is_none());
        drop(joined);
        assert_eq!(Arc::strong_count(&region), 1);
    }

    #[test]
    fn what_lies_outside_is_not_held() {
        let region = Arc::new(Region::anonymous(4096).expect("a page"));
        assert!(region.hold(4090, 7).is_err());
        assert_eq!(Arc::strong_count(&region), 1);
    }
}
