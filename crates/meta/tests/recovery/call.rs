//! Puts and removals as clients make them. A client repeats a call until the master answers, and acknowledges it once
//! every named node has confirmed its drops.

use mooncake_types::{
    ClientId, ErrorCode, Grant, PutEnd, PutItem, PutMode, PutRevoke, PutStart, RangeDrop,
    RemainingRange, Remains, ReplicateConfig, Reply, Request, SegmentId, Version,
};

use crate::cluster::Cluster;
use crate::node::Entry;

const CLIENT: ClientId = ClientId(50);

/// A granted put that has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Put {
    pub(crate) key: String,
    pub(crate) version: Version,
    len: u64,
    grant: Grant,
    /// The segment of each placement, and the offset of its bytes in the object.
    places: Vec<(SegmentId, u64)>,
    failed: u32,
    gone: bool,
}

/// The calls that a client repeats.
#[derive(Clone, Debug)]
pub(crate) enum What {
    End { version: Version, failed: u32 },
    Remove { force: bool },
}

/// A call that the client has not acknowledged yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    key: String,
    what: What,
    /// The first result that the master returned.
    answer: Option<Result<(), ErrorCode>>,
    /// The highest version that a removal has removed.
    took: Version,
    asked_of: u64,
}

impl Cluster {
    pub(crate) fn start(&mut self, key: &str, len: u64, replicas: u32, upsert: bool, hard: bool) {
        let mode = if upsert { PutMode::Upsert } else { PutMode::Insert };
        let config =
            ReplicateConfig { replica_num: replicas, hard_pin: hard, ..ReplicateConfig::default() };
        let start = PutStart { puts: vec![PutItem::new(key, len)], config, mode };
        let (results, segments) = match self.ask(CLIENT, &Request::PutStart(start)) {
            Reply::Granted { results, segments } => (results, segments),
            Reply::Refused(ErrorCode::UnavailableInCurrentStatus) => {
                return self.meet("a call was refused because it was too early");
            }
            other => panic!("{other:?}"),
        };
        let Some(Ok(grant)) = results.into_iter().next() else { return };
        let mut places = Vec::new();
        let (mut replica, mut at) = (0, 0);
        for place in &grant.placements {
            if place.replica != replica {
                (replica, at) = (place.replica, 0);
            }
            let segment = segments[place.segment as usize].id;
            self.range_is_free(segment, place.offset, place.len);
            assert!(self.takes_puts(segment), "{segment} takes no puts");
            places.push((segment, at));
            at += place.len;
        }
        let (key, version) = (key.to_owned(), grant.version);
        self.note(|| format!("{key} {version}: {:?}", grant.placements));
        self.puts.push(Put { key, version, len, grant, places, failed: 0, gone: false });
    }

    fn pick(&self, nth: u64) -> Option<usize> {
        let running: Vec<usize> = (0..self.puts.len()).filter(|&at| !self.puts[at].gone).collect();
        running.get(nth as usize % running.len().max(1)).copied()
    }

    pub(crate) fn write(&mut self, nth: u64, place: u64) {
        let Some(at) = self.pick(nth) else { return };
        let place = place as usize % self.puts[at].places.len();
        self.write_place(at, place);
    }

    /// Begins a range, or completes it. Returns false if its node refuses or cannot be reached.
    fn write_place(&mut self, at: usize, place: usize) -> bool {
        let put = self.puts[at].clone();
        let ((segment, object_offset), placement) =
            (put.places[place], put.grant.placements[place]);
        let now = self.now;
        let node = self.node_of(segment).map(|at| &mut self.nodes[at]);
        let Some(node) = node.filter(|node| node.hears_clients) else { return false };
        let is_begun =
            node.ledger.get(&placement.offset).is_some_and(|entry| entry.version == put.version);
        if is_begun {
            return node.complete(placement.offset, put.version);
        }
        let entry = Entry {
            len: placement.len,
            key: put.key,
            version: put.version,
            object_len: put.len,
            object_offset,
            complete: false,
            attributes: put.grant.attributes,
            begun: now,
        };
        node.begin(placement.offset, entry)
    }

    pub(crate) fn end(&mut self, nth: u64) {
        let Some(at) = self.pick(nth) else { return };
        for place in 0..self.puts[at].places.len() {
            let (segment, _) = self.puts[at].places[place];
            let placement = self.puts[at].grant.placements[place];
            let version = self.puts[at].version;
            let is_done = |cluster: &Cluster| {
                cluster
                    .node_of(segment)
                    .is_some_and(|at| cluster.nodes[at].holds(placement.offset, version))
            };
            let written = is_done(self)
                || (self.write_place(at, place) && (is_done(self) || self.write_place(at, place)));
            if !written {
                self.puts[at].failed |= 1 << placement.replica;
            }
        }
        let put = self.puts.remove(at);
        let what = What::End { version: put.version, failed: put.failed };
        self.call(put.key, what);
    }

    pub(crate) fn abandon(&mut self, nth: u64) {
        if let Some(at) = self.pick(nth) {
            self.puts[at].gone = true;
        }
    }

    /// Gives the put up.
    pub(crate) fn revoke(&mut self, nth: u64) {
        let Some(at) = self.pick(nth) else { return };
        let put = self.puts.remove(at);
        // Sometimes a reader holds ranges of the put at their node.
        let held_replicas = if nth.is_multiple_of(4) { nth as u32 >> 2 } else { 0 };
        let puts = vec![PutRevoke { held_replicas, ..PutRevoke::new(&put.key, put.version) }];
        self.ask(CLIENT, &Request::PutRevoke { puts });
    }

    pub(crate) fn remove(&mut self, key: &str, force: bool) {
        self.call(key.to_owned(), What::Remove { force });
    }

    fn call(&mut self, key: String, what: What) {
        let asked_of = self.meta.epoch().0;
        self.calls.push(Call { key, what, answer: None, took: Version::default(), asked_of });
        self.retry(self.calls.len() as u64 - 1);
        if self.calls.len() > 12 {
            // A client gives up a call that takes too long.
            self.calls.remove(0);
        }
    }

    /// Repeats a call that was not acknowledged.
    pub(crate) fn retry(&mut self, nth: u64) {
        if self.calls.is_empty() {
            return;
        }
        let at = nth as usize % self.calls.len();
        let mut call = self.calls.remove(at);
        if call.asked_of != self.meta.epoch().0 {
            call.asked_of = self.meta.epoch().0;
            self.meet("a call was asked again of a new leader");
        }
        if !self.ask_once(&mut call) {
            self.calls.insert(at, call);
        }
    }

    /// Asks the master once. Returns whether the call has ended.
    fn ask_once(&mut self, call: &mut Call) -> bool {
        let before = self.meta.peek(&call.key).filter(|report| report.complete);
        let key = call.key.clone();
        let request = match call.what {
            What::End { version, failed } => {
                let held_replicas = if version.counter.is_multiple_of(3) { failed } else { 0 };
                let puts =
                    vec![PutEnd { key: &key, version, failed_replicas: failed, held_replicas }];
                Request::PutEnd { puts }
            }
            What::Remove { force } => Request::Remove { keys: vec![&key], force },
        };
        let (results, remains) = match self.ask(CLIENT, &request) {
            Reply::Statuses(results) => (results, Remains::default()),
            Reply::Remaining { results, remains } => (results, remains),
            Reply::Refused(ErrorCode::UnavailableInCurrentStatus) => {
                self.meet("a call was refused because it was too early");
                return false;
            }
            other => panic!("{other:?}"),
        };
        self.note(|| format!("{call:?}: {results:?}, {remains:?}"));
        if let (What::Remove { .. }, Ok(()), Some(before)) = (&call.what, results[0], before) {
            call.took = call.took.max(before.located.version);
        }
        let all_dropped = self.drop_remains(&remains);
        if results[0] == Err(ErrorCode::ObjectReplicaBusy) {
            return false;
        }
        let first = *call.answer.get_or_insert(results[0]);
        let answer = match (&call.what, results[0]) {
            // An earlier attempt has removed the object.
            (What::Remove { .. }, Err(ErrorCode::ObjectNotFound)) => first,
            // Another leader may know no such put, or only an older version.
            (_, again) => first.and(again),
        };
        if all_dropped {
            self.acknowledge(call, answer);
        }
        all_dropped
    }

    /// Drops these entries at their nodes. Returns whether all nodes have confirmed.
    pub(crate) fn drop_remains(&mut self, remains: &Remains) -> bool {
        let mut dropped = Vec::new();
        for range in &remains.ranges {
            let segment = remains.segments[range.segment as usize].id;
            let RemainingRange { offset, version, grant, .. } = *range;
            let node = self.node_of(segment).map(|at| &mut self.nodes[at]);
            let Some(node) = node.filter(|node| node.hears_clients) else { continue };
            let held = node.holds(offset, version);
            node.drop_entry(offset, version);
            dropped.push(RangeDrop { segment, offset, version, grant });
            if held {
                self.meet("a call named entries that a node held");
            }
        }
        if dropped.len() < remains.ranges.len() {
            self.meet("a node did not confirm");
            return false;
        }
        if !dropped.is_empty() {
            self.ask(CLIENT, &Request::Dropped { dropped });
        }
        true
    }

    fn acknowledge(&mut self, call: &Call, answer: Result<(), ErrorCode>) {
        if answer.is_err() {
            return;
        }
        self.note(|| format!("acknowledged: {call:?}"));
        match call.what {
            What::End { version, .. } => {
                if version.epoch < self.meta.epoch() {
                    self.meet("a put was acknowledged by a leader that did not grant it");
                }
                self.promises.put(&call.key, version);
            }
            What::Remove { .. } => self.promises.removed(&call.key, call.took),
        }
    }
}
