use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use mooncake_meta::Shadow;
use mooncake_types::{Follow, ListedSegment, Seal, SegmentId};
use tokio::sync::watch;
use tracing::info;

/// How much a standby knows, for metrics and health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Segments that the leader listed last.
    pub(crate) segments: usize,
    /// How many of them are up to date, as of a moment ago.
    pub(crate) known: usize,
    /// FollowedSegment entries of their ledgers.
    pub(crate) entries: usize,
    /// The leader has listed its segments, and all are up to date.
    pub(crate) is_warm: bool,
}

/// The segments that are followed. Borrowed only between two awaits.
pub(super) struct FollowedPool {
    segments: RefCell<BTreeMap<SegmentId, FollowedSegment>>,
    /// The segments that the leader listed last.
    listed: RefCell<BTreeSet<SegmentId>>,
    was_told: Cell<bool>,
    begun: Instant,
    published: Rc<watch::Sender<Followed>>,
}

struct FollowedSegment {
    endpoint: Arc<str>,
    /// The leader's seal on following it.
    seal: Seal,
    shadow: Shadow,
    /// The last answer of its node brought it up to date.
    is_up_to_date: bool,
}

impl FollowedPool {
    pub(super) fn new(published: Rc<watch::Sender<Followed>>) -> Self {
        Self {
            segments: RefCell::default(),
            listed: RefCell::default(),
            was_told: Cell::new(false),
            begun: Instant::now(),
            published,
        }
    }

    /// Notes the leader's segments. Returns those to follow from now on.
    pub(super) fn list(&self, listed: &[ListedSegment], most: usize) -> Vec<SegmentId> {
        *self.listed.borrow_mut() = listed.iter().map(|it| it.address.id).collect();
        let mut segments = self.segments.borrow_mut();
        let mut new = Vec::new();
        for &ListedSegment { ref address, len, seal } in listed {
            if let Some(known) = segments.get_mut(&address.id) {
                (known.endpoint, known.seal) = (Arc::clone(&address.endpoint), seal);
            } else if segments.len() < most {
                let (endpoint, shadow) = (Arc::clone(&address.endpoint), Shadow::new(len));
                let followed = FollowedSegment { endpoint, seal, shadow, is_up_to_date: false };
                segments.insert(address.id, followed);
                new.push(address.id);
            }
        }
        drop(segments);
        if !listed.is_empty() && !self.was_told.replace(true) {
            info!(segments = listed.len(), "this standby follows what the nodes hold");
        }
        self.was_told.set(true);
        self.publish();
        new
    }

    /// Whether the leader has the segment.
    pub(super) fn is_listed(&self, id: SegmentId) -> bool {
        self.listed.borrow().contains(&id)
    }

    /// The endpoint of its node; `None` if it is not followed.
    pub(super) fn endpoint(&self, id: SegmentId) -> Option<Arc<str>> {
        self.segments.borrow().get(&id).map(|known| Arc::clone(&known.endpoint))
    }

    /// The next question to its node; `None` if it is not followed.
    pub(super) fn ask(&self, id: SegmentId) -> Option<Follow> {
        let segments = self.segments.borrow();
        segments.get(&id).map(|known| Follow { seal: known.seal, ..known.shadow.ask(id) })
    }

    /// Calls `act` with the shadow of a segment; `None` if it is not followed.
    pub(super) fn with<T>(&self, id: SegmentId, act: impl FnOnce(&mut Shadow) -> T) -> Option<T> {
        self.segments.borrow_mut().get_mut(&id).map(|known| act(&mut known.shadow))
    }

    /// Notes whether a segment is up to date, or its node has more to tell at once.
    pub(super) fn note(&self, id: SegmentId, is_up_to_date: bool) {
        let mut segments = self.segments.borrow_mut();
        let Some(known) = segments.get_mut(&id) else { return };
        let is_news = std::mem::replace(&mut known.is_up_to_date, is_up_to_date) != is_up_to_date;
        drop(segments);
        if is_news {
            self.publish();
        }
    }

    /// Forgets the shadow of a segment, and begins another.
    pub(super) fn begin_anew(&self, id: SegmentId) {
        if let Some(known) = self.segments.borrow_mut().get_mut(&id) {
            known.shadow = Shadow::new(known.shadow.len_bytes());
        }
        self.note(id, false);
    }

    /// Stops following a segment.
    pub(super) fn forget(&self, id: SegmentId) {
        self.segments.borrow_mut().remove(&id);
        self.publish();
    }

    pub(super) fn end(&self) -> BTreeMap<SegmentId, Shadow> {
        self.listed.borrow_mut().clear();
        self.published.send_replace(Followed::default());
        let segments = std::mem::take(&mut *self.segments.borrow_mut());
        segments.into_iter().map(|(id, known)| (id, known.shadow)).collect()
    }

    fn publish(&self) {
        let (listed, segments) = (self.listed.borrow(), self.segments.borrow());
        let current = segments.values().filter(|known| known.is_up_to_date);
        let is_known = |id: &&SegmentId| segments.get(id).is_some_and(|it| it.is_up_to_date);
        let known = listed.iter().filter(is_known).count();
        let now = Followed {
            segments: listed.len(),
            known,
            entries: current.map(|known| known.shadow.entries()).sum(),
            is_warm: self.was_told.get() && known == listed.len(),
        };
        let before = self.published.send_replace(now);
        if now.is_warm && !before.is_warm && now.segments > 0 {
            let Followed { segments, entries, .. } = now;
            let took_ms = self.begun.elapsed().as_millis();
            info!(segments, entries, took_ms, "this standby is warm");
        }
    }
}
