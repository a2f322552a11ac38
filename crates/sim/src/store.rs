//! What outlives every master: the membership record and the highest epoch that led.

use std::collections::BTreeMap;

use mooncake_meta::{Effect, Member, Record};
use mooncake_types::{Epoch, SegmentId};

use crate::ids::Process;

#[derive(Debug)]
pub(crate) struct Store {
    members: BTreeMap<SegmentId, Member>,
    epoch: Epoch,
    /// Who leads, and until when nobody else may; not kept where there is only one master.
    lease: Option<(Process, u64)>,
    lease_us: u64,
}

impl Store {
    /// Nobody has led.
    pub(crate) fn new(lease_us: u64) -> Self {
        Self { members: BTreeMap::new(), epoch: Epoch(0), lease: None, lease_us }
    }

    /// What a leader finds that begins now, and its epoch, so much higher than the last.
    pub(crate) fn lead(&mut self, ahead: u64) -> (Record, Epoch) {
        let members = self.members.values().copied().collect();
        let record = Record { fresh: self.epoch == Epoch(0), members };
        self.epoch = Epoch(self.epoch.0 + ahead);
        (record, self.epoch)
    }

    /// Gives the lease to a process, or prolongs it. False if another has it.
    pub(crate) fn hold(&mut self, process: Process, now_us: u64) -> bool {
        let is_free = self.lease.is_none_or(|(holder, until)| holder == process || until <= now_us);
        if is_free {
            self.lease = Some((process, now_us + self.lease_us));
        }
        is_free
    }

    /// Whether a process may not write any more: another leads.
    pub(crate) fn fences(&self, process: Process) -> bool {
        self.lease.is_some_and(|(holder, _)| holder != process)
    }

    /// A change is durable.
    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Join(id) => _ = self.join(id),
            Effect::JoinDisk(id) => self.join(id).is_disk = true,
            Effect::Strike(id) => {
                self.members.remove(&id);
            }
            Effect::MarkBehind(id) => self.mark(id, true),
            Effect::CaughtUp(id) => self.mark(id, false),
        }
    }

    fn join(&mut self, segment: SegmentId) -> &mut Member {
        let member = Member { segment, behind: false, is_disk: false };
        self.members.entry(segment).or_insert(member)
    }

    fn mark(&mut self, id: SegmentId, is_behind: bool) {
        if let Some(known) = self.members.get_mut(&id) {
            known.behind = is_behind;
        }
    }
}
