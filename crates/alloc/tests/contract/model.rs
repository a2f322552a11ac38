use mooncake_alloc::{Allocation, Allocator, Handle, Range, RangeAllocator, SlabAllocator};

/// How many free ranges of one class are tried before a length is refused, as documented.
const STEPS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) handle: Handle,
    /// The reserved range.
    pub(crate) range: Range,
    /// The requested length in bytes.
    pub(crate) asked: u64,
}

/// An allocator and a plain list of the ranges that it has reserved. After every call the two are compared in full.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) real: Allocator,
    /// Sorted by offset.
    pub(crate) live: Vec<Live>,
    capacity: u64,
    slab_bytes: Option<u64>,
}

impl Model {
    pub(crate) fn offset(capacity: u64) -> Model {
        let real = Allocator::Offset(RangeAllocator::new(capacity));
        Model { real, live: Vec::new(), capacity, slab_bytes: None }
    }

    pub(crate) fn cachelib(capacity: u64, slab_bytes: u64) -> Model {
        let real = Allocator::Cachelib(SlabAllocator::with_slab_bytes(capacity, slab_bytes));
        Model { real, live: Vec::new(), capacity, slab_bytes: Some(slab_bytes) }
    }

    pub(crate) fn alloc(&mut self, len: u64) -> Option<Allocation> {
        let gaps = self.gaps();
        let found = self.real.alloc(len);
        match (found, self.slab_bytes) {
            (Some(found), None) => self.expect_front_of_gap(&gaps, found, len),
            (None, None) => expect_no_fit(&gaps, len),
            (None, Some(slab)) if len > 0 => self.expect_no_free_slabs(len.div_ceil(slab), len),
            (_, Some(_)) => {}
        }
        if let Some(found) = found {
            self.insert(found, len);
        }
        self.verify();
        found
    }

    pub(crate) fn alloc_at(&mut self, offset: u64, len: u64) -> Option<Allocation> {
        let end = offset.checked_add(len);
        let fits = |gap: &Range| {
            gap.offset <= offset && end.is_some_and(|end| end <= gap.offset + gap.len)
        };
        let free = len > 0 && self.gaps().iter().any(fits);
        let found = self.real.alloc_at(offset, len);
        if let Some(found) = found {
            assert_eq!(found.offset, offset);
            self.insert(found, len);
        }
        if self.slab_bytes.is_none() {
            assert_eq!(found.is_some(), free, "[{offset}, +{len})");
            let range = found.map(|found| self.real.range(found.handle));
            assert_eq!(range, free.then_some(Range { offset, len }));
        }
        assert!(free || found.is_none(), "[{offset}, +{len}) was in use");
        self.verify();
        found
    }

    /// Frees the live range at this position in the list.
    pub(crate) fn free(&mut self, at: usize) {
        let live = self.live.remove(at);
        self.real.free(live.handle);
        self.verify();
    }

    /// Every free range, in the order of offsets.
    pub(crate) fn gaps(&self) -> Vec<Range> {
        let mut gaps = Vec::new();
        let mut start = 0;
        for end_of_gap in
            self.live.iter().map(|l| l.range).chain([Range { offset: self.capacity, len: 0 }])
        {
            if end_of_gap.offset > start {
                gaps.push(Range { offset: start, len: end_of_gap.offset - start });
            }
            start = end_of_gap.offset + end_of_gap.len;
        }
        gaps
    }

    fn insert(&mut self, found: Allocation, asked: u64) {
        let range = self.real.range(found.handle);
        assert!(range.offset == found.offset && range.len >= asked, "{range:?} for {asked}");
        let at = self.live.partition_point(|live| live.range.offset < range.offset);
        self.live.insert(at, Live { handle: found.handle, range, asked });
    }

    fn verify(&self) {
        self.real.check().unwrap_or_else(|broken| panic!("{broken}"));
        let mut start = 0;
        for live in &self.live {
            assert!(live.range.offset >= start, "{live:?} overlaps what ends at {start}");
            assert_eq!(self.real.range(live.handle), live.range);
            start = live.range.offset + live.range.len;
        }
        assert!(start <= self.capacity, "a range ends at {start}, outside the arena");
        let used: u64 = self.live.iter().map(|live| live.range.len).sum();
        let counts = (self.real.used(), self.real.allocations(), self.real.capacity());
        assert_eq!(counts, (used, self.live.len(), self.capacity));
        self.verify_largest();
    }

    /// Checks that `largest_free` bytes can be allocated.
    fn verify_largest(&self) {
        let largest = self.real.largest_free();
        if largest > 0 {
            let allocated = self.real.clone().alloc(largest);
            assert!(allocated.is_some(), "{largest} bytes were promised");
        }
        if self.slab_bytes.is_none() {
            let longest = self.gaps().iter().map(|gap| gap.len).max().unwrap_or(0);
            assert!(
                largest <= longest && longest - largest <= longest / 32,
                "{largest} of {longest}"
            );
            let shorter = largest / 2;
            assert!(shorter == 0 || self.real.clone().alloc(shorter).is_some(), "{shorter} bytes");
        }
    }

    fn expect_front_of_gap(&self, gaps: &[Range], found: Allocation, len: u64) {
        let gap = gaps.iter().find(|gap| gap.offset == found.offset);
        let gap = gap.unwrap_or_else(|| panic!("no gap starts at {}", found.offset));
        assert_eq!(
            self.real.range(found.handle).len,
            rounded(len).min(gap.len),
            "{len} in {gap:?}"
        );
    }

    fn expect_no_free_slabs(&self, wanted: u64, len: u64) {
        let slab_bytes = self.slab_bytes.expect("only slabs are counted");
        let mut run = 0;
        for slab in 0..self.capacity / slab_bytes {
            let (start, end) = (slab * slab_bytes, (slab + 1) * slab_bytes);
            let busy = |l: &Live| l.range.offset < end && start < l.range.offset + l.range.len;
            run = if self.live.iter().any(busy) { 0 } else { run + 1 };
            assert!(run < wanted, "{len} bytes were refused, but slab {slab} ends a run of {run}");
        }
    }
}

/// Checks that a refusal is one that the documentation allows.
fn expect_no_fit(gaps: &[Range], len: u64) {
    let wider = if gaps.len() > STEPS { len / 32 } else { 0 };
    let fits = gaps.iter().find(|gap| len > 0 && gap.len >= len + wider);
    assert_eq!(fits, None, "{len} bytes were refused");
}

/// The documented rounding: to the largest power of two that is at most 1/64 of the length, and at most 4096.
pub(crate) fn rounded(len: u64) -> u64 {
    let granule =
        (0..=12).map(|power| 1 << power).rfind(|granule| granule * 64 <= len).unwrap_or(1);
    len.div_ceil(granule) * granule
}
