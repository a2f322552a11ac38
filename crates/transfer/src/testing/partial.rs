use std::ops::Range;

use mooncake_types::Version;

/// An entry of which parts are written.
pub(super) struct Partial {
    pub(super) entry: Range<u64>,
    pub(super) version: Version,
    pub(super) grant: Version,
    /// The parts that are in place, in no order.
    done: Vec<Range<u64>>,
}

impl Partial {
    pub(super) fn new(entry: Range<u64>, version: Version, grant: Version) -> Self {
        Self { entry, version, grant, done: Vec::new() }
    }

    /// The bytes of `part` are about to change.
    pub(super) fn open(&mut self, part: &Range<u64>) {
        let cut = |done: &Range<u64>| {
            [done.start..done.end.min(part.start), done.start.max(part.end)..done.end]
        };
        self.done = self.done.iter().flat_map(cut).filter(|piece| !piece.is_empty()).collect();
    }

    /// The bytes of `part` are in place. Returns whether the whole entry is.
    pub(super) fn close(&mut self, part: Range<u64>) -> bool {
        self.done.push(part);
        self.done.sort_by_key(|done| done.start);
        let reach = |end: u64, done: &Range<u64>| {
            if done.start <= end { end.max(done.end) } else { end }
        };
        self.done.iter().fold(self.entry.start, reach) == self.entry.end
    }
}
