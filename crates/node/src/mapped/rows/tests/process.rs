//! A process that does things at random with a segment.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use mooncake_types::{Chance, RangeDrop, RangeWrite, Seal, SegmentId};

use super::{Broken, Change, EPOCH_COUNTERS, LEN, Moment, Recorded, Step, version};
use crate::ledger::{Clearance, Entry, EntryState};
use crate::machine::{Effect, SegmentMachine, WriteRequest};
use crate::mapped::rows::EntryRows;

struct Writer {
    ticket: u64,
    grant: u64,
    /// The bytes that it has not written.
    left: Vec<u64>,
}

/// A process with the segment.
pub(super) struct Process {
    chance: Chance,
    machine: SegmentMachine<()>,
    rows: EntryRows<Recorded>,
    pub(super) log: Rc<RefCell<Vec<Step>>>,
    writers: Vec<Writer>,
    next: u64,
    broken: Broken,
}

impl Process {
    pub(super) fn start(moment: &Moment, chance: Chance, broken: Broken) -> Self {
        let log = Rc::default();
        let (rows, ledger) = moment.restore_broken(&log, broken);
        let machine = SegmentMachine::new(rows.segment(), ledger, rows.epoch());
        let first_of_epoch = machine.epoch().0 * EPOCH_COUNTERS;
        let next = first_of_epoch.max(moment.floor.1 + 1);
        Self { chance, machine, rows, log, writers: Vec::new(), next, broken }
    }

    fn say(&self, step: Step) {
        self.log.borrow_mut().push(step);
    }

    pub(super) fn act(&mut self) {
        match self.chance.below(32) {
            0..11 => self.begin(),
            11..17 => self.write_some(),
            17..25 => self.complete(),
            25..27 => self.abandon(),
            27..30 => self.drop_one(),
            30 => self.skip_some_grants(),
            _ => self.start_empty(),
        }
    }

    /// The counter of a grant that is newer than all others. The machine obeys its leader from then on.
    fn newest_grant(&mut self) -> u64 {
        let (grant, epoch) = (self.next, version(self.next).epoch);
        self.next += 1;
        if epoch > self.machine.epoch() {
            self.say(Step::Begins(Change::Epoch(epoch.0)));
            self.machine.obey(epoch, |effect| self.rows.carry_out(&effect));
            self.say(Step::Is(Change::Epoch(epoch.0)));
        }
        grant
    }

    fn skip_some_grants(&mut self) {
        self.next += self.chance.below(4 * EPOCH_COUNTERS);
        self.newest_grant();
    }

    fn begin(&mut self) {
        let chance = &mut self.chance;
        let offset = chance.below(LEN);
        let entry_len = 1 + chance.below((LEN - offset).min(12));
        let from = if chance.below(3) == 0 { chance.below(entry_len) } else { 0 };
        let len = if from > 0 { 1 + chance.below(entry_len - from) } else { entry_len };
        // Some writers come late, a few of them with grants from before the last restart.
        let late = if chance.below(4) == 0 { chance.below(6) } else { 0 };
        let object_offset = chance.below(8);
        let key_len = [8, 30, 168, 169, 400, 1_500][chance.below(6) as usize];
        let attributes = &[7; 20][..chance.below(20) as usize];
        let grant = self.newest_grant().saturating_sub(late).max(1);
        let key = format!("{grant}-").repeat(key_len)[..key_len].to_owned();
        self.take(&RangeWrite {
            segment: self.machine.id(),
            offset,
            entry_len,
            from,
            len,
            key: &key,
            version: version(grant),
            grant: version(grant),
            object_len: entry_len + 7,
            object_offset,
            attributes,
            seal: Seal::NONE,
        });
    }

    /// Whether a writer of this range begins.
    pub(super) fn take(&mut self, range: &RangeWrite<'_>) -> bool {
        let grant = range.grant.counter;
        let start = range.offset + range.from;
        let left: Vec<u64> = (start..start + range.len).collect();
        let take = Change::Take { range: range.offset..range.offset + range.entry_len, grant };
        let Self { machine, rows, log, broken, .. } = self;
        let (epoch, now) = (machine.epoch(), Instant::now());
        let request = WriteRequest { epoch, range, writer: (), now, until: now };
        let mut has_begun = false;
        let begun = machine.begin(request, |effect| {
            if !std::mem::replace(&mut has_begun, true) {
                log.borrow_mut().push(Step::Begins(take.clone()));
                if *broken == Broken::Withdrawal {
                    log.borrow_mut().push(Step::Byte { at: left[0], grant });
                }
            }
            if *broken != Broken::Floor || !matches!(effect, Effect::RefuseGrants { .. }) {
                rows.carry_out(&effect);
            }
        });
        let Ok(ticket) = begun else { return false };
        self.say(Step::Is(take));
        self.writers.push(Writer { ticket, grant, left });
        true
    }

    fn any_writer(&mut self) -> Option<usize> {
        let count = self.writers.len() as u64;
        (count > 0).then(|| self.chance.below(count) as usize)
    }

    fn is_clear(&self, index: usize) -> bool {
        self.machine.ledger().clearance(self.writers[index].ticket) == Clearance::Clear
    }

    fn write_some(&mut self) {
        let Some(index) = self.any_writer() else { return };
        if self.is_clear(index) {
            let left = self.writers[index].left.len() as u64;
            self.write(index, self.chance.clone().below(left + 1) as usize);
        }
    }

    fn write(&mut self, index: usize, count: usize) {
        let writer = &mut self.writers[index];
        let grant = writer.grant;
        let written: Vec<u64> = writer.left.drain(..count).collect();
        written.into_iter().for_each(|at| self.say(Step::Byte { at, grant }));
    }

    fn complete(&mut self) {
        let Some(index) = self.any_writer() else { return };
        if !self.is_clear(index) {
            return self.abandon();
        }
        let left = self.writers[index].left.len();
        let is_early = self.broken == Broken::Completion;
        self.write(index, left - usize::from(is_early).min(left));
        let Writer { ticket, grant, .. } = self.writers.swap_remove(index);
        let checksums = if grant.is_multiple_of(2) { vec![grant as u32] } else { vec![] };
        let Self { machine, rows, log, .. } = self;
        let completed = machine.complete(ticket, checksums, |effect| {
            let Effect::AddRow { offset, entry } = effect else { return };
            let complete = Change::Complete { offset, entry: entry.clone() };
            log.borrow_mut().push(Step::Begins(complete.clone()));
            rows.carry_out(&effect);
            log.borrow_mut().push(match rows.rows.contains_key(&offset) {
                true => Step::Is(complete),
                false => Step::IsNotKept { offset },
            });
        });
        completed.expect("nobody superseded it");
    }

    fn abandon(&mut self) {
        let Some(index) = self.any_writer() else { return };
        self.machine.abandon(self.writers.swap_remove(index).ticket);
    }

    /// Drops an entry that exists, or a version that may yet be written.
    fn drop_one(&mut self) {
        let complete = |(_, entry): &(u64, &Entry)| entry.state == EntryState::Complete;
        let found = self.machine.ledger().entries().filter(complete);
        let found: Vec<_> = found.map(|(at, entry)| (at, entry.version.counter)).collect();
        let (offset, dropped) = match self.chance.below(found.len() as u64 + 1) as usize {
            any if any < found.len() => found[any],
            _ => (self.chance.below(LEN), self.next.saturating_sub(self.chance.below(8)).max(1)),
        };
        let grant = self.newest_grant();
        let range = RangeDrop {
            segment: self.machine.id(),
            offset,
            version: version(dropped),
            grant: version(grant),
        };
        let change = Change::Drop { offset, grant };
        self.say(Step::Begins(change.clone()));
        if self.broken == Broken::Drop {
            self.say(Step::Is(change.clone()));
        }
        let done = self
            .machine
            .drop_entry(&range, std::time::Instant::now(), |effect| self.rows.carry_out(&effect));
        done.expect("its leader is obeyed");
        self.say(Step::Is(change));
    }

    fn start_empty(&mut self) {
        let segment = u128::from(self.chance.bits()) << 64 | u128::from(self.chance.bits());
        self.say(Step::Begins(Change::StartEmpty { segment }));
        self.machine.start_empty(SegmentId(segment), |effect| self.rows.carry_out(&effect));
        self.say(Step::Is(Change::StartEmpty { segment }));
    }
}
