use super::SlabAllocator;
use super::slab_table::Use;

/// Counts of the slabs in use and their ranges.
#[derive(Default)]
struct Census {
    ranges: usize,
    used: u64,
    open: usize,
    slabs: u64,
    pooled: usize,
}

impl SlabAllocator {
    /// Verifies every invariant, in time that grows with the number of slabs and ranges. For tests.
    ///
    /// # Errors
    /// A sentence that names the first broken invariant.
    pub fn check(&self) -> Result<(), String> {
        self.pool.check()?;
        let mut census = Census::default();
        for slab in 0..self.shelf.len() {
            self.check_slab(slab, &mut census)?;
        }
        let open = self.shelf.check_lists()?;
        if open != census.open {
            return Err(format!("the lists hold {open} of {} slabs with a free slot", census.open));
        }
        if (census.slabs, census.pooled) != (self.pool.used(), self.pool.allocations()) {
            return Err("the slabs in use are not those that the pool gave out".to_owned());
        }
        if (census.ranges, census.used) != (self.allocations(), self.used) {
            return Err(format!(
                "{} ranges of {} bytes are counted, but {} of {} exist",
                self.allocations(),
                self.used,
                census.ranges,
                census.used
            ));
        }
        self.check_tickets()
    }

    fn check_slab(&self, slab: u32, census: &mut Census) -> Result<(), String> {
        let (pool, bytes) = match self.shelf.usage(slab) {
            Use::Empty => return Ok(()),
            Use::Run { pool } => {
                census.ranges += 1;
                (*pool, self.pool.range(*pool).len * self.slab_bytes)
            }
            Use::Slots { pool, class, slots } => {
                if slots.taken() == 0 || !slots.check() {
                    return Err(format!("slab {slab} is empty, or its counts are wrong"));
                }
                census.ranges += slots.taken() as usize;
                census.open += usize::from(!slots.is_full());
                (*pool, u64::from(slots.taken()) * self.classes.slot_len(*class))
            }
        };
        let range = self.pool.range(pool);
        if range.offset != u64::from(slab) {
            return Err(format!("slab {slab} is slab {} in the pool", range.offset));
        }
        census.used += bytes;
        census.slabs += range.len;
        census.pooled += 1;
        Ok(())
    }

    /// Checks that every live handle names a taken slot or a run, and that no two handles name the same one.
    fn check_tickets(&self) -> Result<(), String> {
        let mut offsets: Vec<u64> = self.tickets.offsets().collect();
        offsets.sort_unstable();
        if offsets.len() != self.tickets.len() || offsets.windows(2).any(|pair| pair[0] == pair[1])
        {
            return Err("two handles name the same range, or handles are miscounted".to_owned());
        }
        for offset in offsets {
            let within = offset % self.slab_bytes;
            let live = match self.shelf.usage(self.slab_at(offset)) {
                Use::Empty => false,
                Use::Run { .. } => within == 0,
                Use::Slots { class, slots, .. } => {
                    let len = self.classes.slot_len(*class);
                    let slot = (within / len) as u32;
                    within.is_multiple_of(len) && slot < slots.count() && !slots.is_free(slot)
                }
            };
            if !live {
                return Err(format!("a handle names offset {offset}, where no range is"));
            }
        }
        Ok(())
    }
}
