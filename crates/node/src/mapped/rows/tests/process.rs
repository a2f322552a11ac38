//! A process that does things at random with a segment.

use std::cell::RefCell;
use std::rc::Rc;

use mooncake_types::{Chance, Epoch, RangeWrite, SegmentId};

use super::{Broken, Change, LEN, Moment, Recorded, Step, version};
use crate::ledger::{Clearance, Entry, EntryState, Ledger};
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
    pub(super) ledger: Ledger,
    pub(super) kept: EntryRows<Recorded>,
    pub(super) log: Rc<RefCell<Vec<Step>>>,
    writers: Vec<Writer>,
    next: u64,
    broken: Broken,
}

impl Process {
    pub(super) fn start(moment: &Moment, chance: Chance, broken: Broken) -> Self {
        let log = Rc::default();
        let (kept, ledger) = moment.restore_broken(&log, broken);
        let next = moment.floor.1 + 1;
        Self { chance, ledger, kept, log, writers: Vec::new(), next, broken }
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
            30 => self.note_epoch(),
            _ => self.start_empty(),
        }
    }

    fn begin(&mut self) {
        let chance = &mut self.chance;
        let offset = chance.below(LEN);
        let entry_len = 1 + chance.below((LEN - offset).min(12));
        let from = if chance.below(3) == 0 { chance.below(entry_len) } else { 0 };
        let len = if from > 0 { 1 + chance.below(entry_len - from) } else { entry_len };
        // Some come late, and some of those from before the last restart.
        let late = if chance.below(4) == 0 { chance.below(6) } else { 0 };
        let grant = self.next.saturating_sub(late).max(1);
        self.next += 1;
        let key_len = [8, 30, 168, 169, 400, 1_500][chance.below(6) as usize];
        let key = format!("{grant}-").repeat(key_len)[..key_len].to_owned();
        let range = RangeWrite {
            segment: SegmentId(1),
            offset,
            entry_len,
            from,
            len,
            key: &key,
            version: version(grant),
            grant: version(grant),
            object_len: entry_len + 7,
            object_offset: chance.below(8),
            attributes: &[7; 20][..chance.below(20) as usize],
        };
        let Ok(begun) = self.ledger.begin(&range) else { return };
        let take = Change::Take { range: offset..offset + entry_len, grant };
        self.say(Step::Begins(take.clone()));
        let left: Vec<u64> = (offset + from..offset + from + len).collect();
        if self.broken == Broken::Withdrawal {
            self.say(Step::Byte { at: left[0], grant });
        }
        let noted = if self.broken == Broken::Floor { 0 } else { grant };
        self.kept.begin(&begun.dropped, version(noted));
        self.say(Step::Is(take));
        self.writers.push(Writer { ticket: begun.ticket, grant, left });
    }

    fn any_writer(&mut self) -> Option<usize> {
        let count = self.writers.len() as u64;
        (count > 0).then(|| self.chance.below(count) as usize)
    }

    fn write_some(&mut self) {
        let Some(index) = self.any_writer() else { return };
        if self.ledger.clearance(self.writers[index].ticket) == Clearance::Clear {
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
        let ticket = self.writers[index].ticket;
        if self.ledger.clearance(ticket) != Clearance::Clear {
            return self.abandon();
        }
        let is_early = self.broken == Broken::Completion;
        self.write(
            index,
            self.writers[index].left.len()
                - usize::from(is_early).min(self.writers[index].left.len()),
        );
        let writer = self.writers.swap_remove(index);
        let offset = self.ledger.offset_of(ticket);
        let checksums =
            if writer.grant.is_multiple_of(2) { vec![writer.grant as u32] } else { vec![] };
        self.ledger.complete(ticket, checksums).expect("nobody superseded it");
        let Some(entry) = self.ledger.complete_at(offset) else { return };
        let complete = Change::Complete { offset, entry: entry.clone() };
        self.say(Step::Begins(complete.clone()));
        match self.kept.complete(offset, entry) {
            true => self.say(Step::Is(complete)),
            false => self.say(Step::IsNotKept { offset }),
        }
    }

    fn abandon(&mut self) {
        let Some(index) = self.any_writer() else { return };
        self.ledger.abandon(self.writers.swap_remove(index).ticket);
    }

    /// Drops something that is there, or something that may come.
    fn drop_one(&mut self) {
        let complete = |(_, entry): &(u64, &Entry)| entry.state == EntryState::Complete;
        let found = self.ledger.entries().filter(complete);
        let found: Vec<_> = found.map(|(at, entry)| (at, entry.version.counter)).collect();
        let (offset, dropped) = match self.chance.below(found.len() as u64 + 1) as usize {
            any if any < found.len() => found[any],
            _ => (self.chance.below(LEN), self.next.saturating_sub(self.chance.below(8)).max(1)),
        };
        let gone = self.ledger.drop_version(offset, version(dropped), version(dropped));
        let change = Change::Drop { offset, version: dropped };
        self.say(Step::Begins(change.clone()));
        if self.broken == Broken::Drop {
            self.say(Step::Is(change.clone()));
        }
        self.kept.drop_entries(&gone.dropped, version(dropped));
        self.say(Step::Is(change));
    }

    fn note_epoch(&mut self) {
        let epoch = self.chance.below(100);
        self.say(Step::Begins(Change::Epoch(epoch)));
        self.kept.note_epoch(Epoch(epoch));
        self.say(Step::Is(Change::Epoch(epoch)));
    }

    fn start_empty(&mut self) {
        self.ledger.drop_all();
        let segment = u128::from(self.chance.bits()) << 64 | u128::from(self.chance.bits());
        self.say(Step::Begins(Change::StartEmpty { segment }));
        self.kept.start_empty(SegmentId(segment));
        self.say(Step::Is(Change::StartEmpty { segment }));
    }
}
