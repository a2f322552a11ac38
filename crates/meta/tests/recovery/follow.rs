//! A standby that knows an earlier state of the nodes' ledgers; the nodes can report what has changed since.

use std::collections::BTreeMap;

use mooncake_meta::Shadow;
use mooncake_types::{ChangesPage, ErrorCode, FollowPage, Reply, Request, SegmentId};

use crate::cluster::Cluster;
use crate::node::{Entry, Node};

/// The number of steps between two looks at a node.
const EVERY: u64 = 9;

/// The ledger of a node at a numbered moment.
type Held = BTreeMap<u64, Entry>;

/// What the next leader may know.
#[derive(Default)]
pub(crate) struct Follower {
    looks: u64,
    shadows: BTreeMap<SegmentId, Shadow>,
    /// The ledgers at the moments from which the next leader may ask for changes.
    pub(crate) held: BTreeMap<u64, Held>,
}

/// A report of changes that is in progress.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    told: Held,
    page: u32,
}

impl Follower {
    /// Follows one of the nodes, on every ninth call.
    pub(crate) fn look(&mut self, nodes: &[Node]) {
        self.looks += 1;
        if !self.looks.is_multiple_of(EVERY) {
            return;
        }
        let node = &nodes[(self.looks / EVERY) as usize % nodes.len()];
        let whole = node.page(0, usize::MAX);
        let told =
            FollowPage { entries: whole.entries, cursor: self.looks, ..FollowPage::default() };
        let mut shadow = Shadow::new(node.len).with_pages_of(1 + self.looks as usize % 4);
        assert_eq!(shadow.take(&told), Ok(true));
        self.held.insert(self.looks, node.ledger.clone());
        self.shadows.insert(node.segment, shadow);
    }

    /// The shadows for the next leader; none if `odd` is false.
    pub(crate) fn lead(&mut self, odd: bool) -> BTreeMap<SegmentId, Shadow> {
        let shadows = std::mem::take(&mut self.shadows);
        if odd { shadows } else { BTreeMap::new() }
    }
}

impl Cluster {
    /// The leader asks a node for the changes since this number.
    pub(crate) fn begin_telling(&mut self, at: usize, since: u64) {
        let node = &mut self.nodes[at];
        node.telling =
            self.follower.held.get(&since).map(|told| Telling { told: told.clone(), page: 0 });
        // Sometimes a node has forgotten its changes and reports its whole inventory.
        if since.is_multiple_of(5) {
            node.telling = None;
        }
        self.meet(match self.nodes[at].telling {
            Some(_) => "a node told what changed",
            None => "a node had forgotten what changed",
        });
    }

    /// Reports a page of at most `most` changes.
    pub(crate) fn tell(&mut self, at: usize, most: usize) {
        let mut node = self.nodes[at].clone();
        let telling = node.telling.as_mut().expect("it is telling");
        let whole = node.ledger.clone();
        let holder = self.nodes[at].clone();
        let page = holder.page(0, usize::MAX);
        let is_new = |offset: &u64| telling.told.get(offset) != whole.get(offset);
        let mut rows: Vec<u64> = whole.keys().copied().filter(is_new).collect();
        rows.extend(telling.told.keys().filter(|&offset| !whole.contains_key(offset)));
        let (last, number) = (rows.len() <= most, telling.page);
        rows.truncate(most);
        let mut gone = Vec::new();
        for &offset in &rows {
            match whole.get(&offset) {
                Some(entry) => drop(telling.told.insert(offset, entry.clone())),
                None => {
                    telling.told.remove(&offset);
                    gone.push(offset);
                }
            }
        }
        telling.page += 1;
        let entries = page.entries.into_iter().filter(|entry| rows.contains(&entry.offset));
        let page = ChangesPage {
            segment: node.segment,
            page: number,
            last,
            entries: entries.collect(),
            gone,
        };
        let reply = self.ask(node.client, &Request::ReportChanges(page));
        if reply == Reply::Done(Err(ErrorCode::UnavailableInCurrentStatus)) {
            // The report took too long, so the node must mount the segment again.
            (self.nodes[at].mounted_under, self.nodes[at].telling) = (None, None);
            return;
        }
        assert_eq!(reply, Reply::Done(Ok(())), "{rows:?}");
        self.nodes[at].telling = node.telling.filter(|_| !last);
    }
}
