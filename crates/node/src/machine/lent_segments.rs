use mooncake_types::{Epoch, ErrorCode, SegmentId};

/// Most former ids that are kept for a segment.
const MAX_FORMER: usize = 64;

/// All segments that a process lends, by their ids, and the highest epoch that they obey. `S` is the shell's part of
/// a segment.
#[derive(Debug)]
pub struct LentSegments<S> {
    segments: Vec<KnownSegment<S>>,
    epoch: Epoch,
}

/// A segment and the ids by which callers know it.
#[derive(Debug)]
struct KnownSegment<S> {
    id: SegmentId,
    /// The ids that it had before it started empty, the latest first. Writers that began under them may still be at
    /// work.
    former: Vec<SegmentId>,
    segment: S,
}

impl<S> Default for LentSegments<S> {
    fn default() -> Self {
        Self { segments: Vec::new(), epoch: Epoch(0) }
    }
}

impl<S> LentSegments<S> {
    /// The segments, in the order in which they were lent.
    pub fn iter(&self) -> impl Iterator<Item = &S> {
        self.segments.iter().map(|lent| &lent.segment)
    }

    /// Their ids, in that order.
    pub fn ids(&self) -> impl Iterator<Item = SegmentId> {
        self.segments.iter().map(|lent| lent.id)
    }

    /// The segment that has this id.
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn find(&self, id: SegmentId) -> Result<&S, ErrorCode> {
        let found = self.segments.iter().find(|lent| lent.id == id);
        found.map(|lent| &lent.segment).ok_or(ErrorCode::SegmentNotFound)
    }

    /// The segment that has, or had, this id. Ending a write and dropping an entry use it.
    ///
    /// # Errors
    /// [`ErrorCode::SegmentNotFound`].
    pub fn find_ever(&self, id: SegmentId) -> Result<&S, ErrorCode> {
        self.find_lent(id).map(|lent| &lent.segment).ok_or(ErrorCode::SegmentNotFound)
    }

    /// The present id of the segment that has, or had, this id.
    pub fn current_id(&self, id: SegmentId) -> Option<SegmentId> {
        self.find_lent(id).map(|lent| lent.id)
    }

    fn find_lent(&self, id: SegmentId) -> Option<&KnownSegment<S>> {
        self.segments.iter().find(|lent| lent.id == id || lent.former.contains(&id))
    }

    /// Lends one more segment. The caller must have it [obey](Self::obey) before it gets any request.
    pub fn lend(&mut self, id: SegmentId, segment: S) {
        self.segments.push(KnownSegment { id, former: Vec::new(), segment });
    }

    /// Stops lending a segment, and returns it.
    pub fn take_back(&mut self, id: SegmentId) -> Option<S> {
        let position = self.segments.iter().position(|lent| lent.id == id)?;
        Some(self.segments.remove(position).segment)
    }

    /// Gives a segment a new id, after `start_empty` has dropped everything in it. `None` if there is no segment
    /// `id`.
    pub fn start_empty<T>(
        &mut self,
        id: SegmentId,
        new_id: SegmentId,
        start_empty: impl FnOnce(&mut S) -> T,
    ) -> Option<T> {
        let lent = self.segments.iter_mut().find(|lent| lent.id == id)?;
        let started = start_empty(&mut lent.segment);
        // Keep the last element: it is the first id of all, by which callers know the segment.
        if lent.former.len() == MAX_FORMER {
            lent.former.remove(MAX_FORMER - 2);
        }
        lent.former.insert(0, std::mem::replace(&mut lent.id, new_id));
        Some(started)
    }

    /// The highest epoch that all segments obey.
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Has every segment obey an epoch that this process's own master named, or the present one if that is higher. So
    /// when the node says that it obeys an epoch, each segment does.
    pub fn obey(&mut self, epoch: Epoch, mut obey: impl FnMut(&mut S, Epoch)) {
        let epoch = self.epoch.max(epoch);
        self.segments.iter_mut().for_each(|lent| obey(&mut lent.segment, epoch));
        self.epoch = epoch;
    }
}
