//! What tenants are charged for: each range in memory, of objects, running puts and copies, and the ranges that stay
//! reserved after a put or copy was given up.

use mooncake_types::{Medium, split_tenant};

use crate::Meta;
use crate::objects::{ObjectState, Pin};
use crate::segments::Piece;

impl Meta {
    /// Whether tenants are charged for ranges on a segment.
    #[inline]
    pub(crate) fn is_charged(&self, segment: u32) -> bool {
        self.tenants.is_enforced() && self.segments[segment].medium == Medium::Memory
    }

    /// Charges the tenant of an object for a new range.
    #[inline]
    pub(crate) fn charge_range(&mut self, object: u32, segment: u32, len: u64) {
        if self.is_charged(segment) {
            let account = self.tenants.open(split_tenant(&self.objects[object].key).0);
            self.charge(account, (1, len));
            self.count_pinned(object, len as i64);
        }
    }

    /// Gives the tenant of an object back what a range was charged that is gone.
    #[inline]
    pub(crate) fn refund_range(&mut self, object: u32, segment: u32, len: u64) {
        if self.is_charged(segment) {
            self.count_pinned(object, -(len as i64));
            let account = self.account_of(object);
            self.refund(account, (1, len));
        }
    }

    /// Charges the tenant of a stored key for ranges of no object. Returns the account that pays for them, if they are
    /// in memory.
    pub(crate) fn charge_pieces(&mut self, key: &str, pieces: &[Piece]) -> Option<u32> {
        let (ranges, bytes) = self.charged(pieces);
        (ranges > 0).then(|| {
            let account = self.tenants.open(split_tenant(key).0);
            self.charge(account, (ranges, bytes));
            account
        })
    }

    /// Gives an account back what ranges were charged that belong to no object.
    pub(crate) fn refund_pieces(&mut self, payer: Option<u32>, pieces: &[Piece]) {
        if let Some(account) = payer {
            self.refund(account, self.charged(pieces));
        }
    }

    /// How many ranges are charged, and how long they are together.
    fn charged(&self, pieces: &[Piece]) -> (u64, u64) {
        let charged = pieces.iter().filter(|piece| self.is_charged(piece.segment));
        charged.fold((0, 0), |(ranges, bytes), piece| (ranges + 1, bytes + piece.len))
    }

    fn charge(&mut self, account: u32, (ranges, bytes): (u64, u64)) {
        let it = &mut self.tenants.accounts[account];
        (it.bytes, it.ranges) = (it.bytes + bytes, it.ranges + ranges);
        self.note_crowded_tenant(account);
    }

    fn refund(&mut self, account: u32, (ranges, bytes): (u64, u64)) {
        let it = &mut self.tenants.accounts[account];
        (it.bytes, it.ranges) = (it.bytes - bytes, it.ranges - ranges);
        self.tenants.close_if_empty(account);
    }

    /// Counts bytes of an object that come to memory or (below zero) leave it, if the object is hard-pinned.
    fn count_pinned(&mut self, object: u32, change: i64) {
        if self.objects[object].pin == Pin::Hard {
            let account = self.account_of(object);
            let pinned = &mut self.tenants.accounts[account].pinned;
            *pinned = pinned.strict_add_signed(change);
        }
    }

    /// Counts ranges that came to a hard-pinned object from another record, or all ranges of one that has just been
    /// pinned.
    pub(crate) fn count_newly_pinned(&mut self, object: u32, ranges: &[u32]) {
        for &id in ranges {
            let range = &self.ranges[id];
            if self.is_charged(range.segment) {
                self.count_pinned(object, range.len as i64);
            }
        }
    }

    /// Bytes that the hard-pinned object of a key has in memory.
    pub(super) fn pinned_bytes_of(&self, object: u32) -> u64 {
        if self.objects[object].pin != Pin::Hard {
            return 0;
        }
        let ranges = self.ranges_of(object).filter(|(_, range)| self.is_charged(range.segment));
        ranges.map(|(_, range)| range.len).sum()
    }

    /// Whether an object counts among those that its tenant has in memory. Records of no object of their own do not.
    #[inline]
    pub(crate) fn counts_in_memory(&self, object: u32) -> bool {
        self.tenants.is_enforced()
            && !matches!(self.objects[object].state, ObjectState::Copying | ObjectState::Gathering)
            && self.memory_replicas(object) != 0
    }

    /// Counts an object that came to memory or left it since it `counted` or not.
    #[inline]
    pub(crate) fn count_in_memory(&mut self, object: u32, counted: bool) {
        let counts = self.counts_in_memory(object);
        if counts == counted {
            return;
        }
        // A tenant whose last range is gone may have no account any more.
        let Some(account) = self.tenants.of_key(&self.objects[object].key) else { return };
        let objects = &mut self.tenants.accounts[account].objects;
        *objects = if counts { *objects + 1 } else { *objects - 1 };
    }

    /// Notes that a range of an object begins or ends to sink on a memory segment.
    #[inline]
    pub(crate) fn count_sinking(&mut self, object: u32, change: i64) {
        if self.tenants.is_enforced() {
            let account = self.account_of(object);
            let sinking = &mut self.tenants.accounts[account].sinking;
            *sinking = sinking.strict_add_signed(change);
        }
    }
}
