//! Random histories of a segment with a file, cut off after each store. Each time the next process must find what the
//! history allows.

mod process;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use mooncake_memory::WordMemory;
use mooncake_types::{Chance, Epoch, RangeWrite, Seal, SegmentId, Version};

use super::{EntryRows, row};
use crate::ledger::{Entry, Ledger};
use process::Process;

/// Length of the segment in bytes.
const LEN: u64 = 40;

/// Words of the record: its header, and slots for few and short rows.
const WORDS: usize = 512 + 20 * 32;

/// One event of a history.
#[derive(Clone, Debug)]
enum Step {
    /// A word of the record was stored.
    Word { index: usize, value: u64 },
    /// A byte of the segment was changed by a writer with this grant.
    Byte { at: u64, grant: u64 },
    /// A change begins.
    Begins(Change),
    /// A change has ended, and its caller got the answer.
    Is(Change),
    /// There was no room for the row of the entry that starts here.
    IsNotKept { offset: u64 },
}

#[derive(Clone, Debug)]
enum Change {
    /// A range was taken under this grant.
    Take {
        range: Range<u64>,
        grant: u64,
    },
    Complete {
        offset: u64,
        entry: Entry,
    },
    Drop {
        offset: u64,
        grant: u64,
    },
    /// Everything was dropped, and the segment got another id.
    StartEmpty {
        segment: u128,
    },
    Epoch(u64),
}

/// A rule that a test breaks on purpose, to see that a check fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    Nothing,
    /// Each store takes effect before the one that was made before it.
    Order,
    /// Bytes change before the rows of the entries that lay there are removed (L1).
    Withdrawal,
    /// An entry is complete before its last byte is in place (L2).
    Completion,
    /// A caller gets the answer to a drop before the drop is made.
    Drop,
    /// Grants that begin are not noted (L7).
    Floor,
}

/// Words that log each store.
struct Recorded {
    words: RefCell<Vec<u64>>,
    log: Rc<RefCell<Vec<Step>>>,
    broken: Broken,
}

impl WordMemory for Recorded {
    fn len_words(&self) -> usize {
        WORDS
    }

    fn load(&self, index: usize) -> u64 {
        self.words.borrow()[index]
    }

    fn store(&self, index: usize, value: u64) {
        self.words.borrow_mut()[index] = value;
        let mut log = self.log.borrow_mut();
        let at = log.len();
        log.push(Step::Word { index, value });
        if self.broken == Broken::Order && matches!(log[at.saturating_sub(1)], Step::Word { .. }) {
            log.swap(at - 1, at);
        }
    }

    fn barrier(&self) {}

    fn provide(&self, words: usize) -> bool {
        words <= WORDS
    }
}

/// The content of the file at one moment, and what the next process may find in it.
#[derive(Clone)]
struct Moment {
    words: Vec<u64>,
    /// The grant of the writer that wrote each byte last.
    bytes: Vec<u64>,
    /// Entries whose writers know that they are complete, and whose drop has not begun.
    sure: BTreeMap<u64, Entry>,
    /// Entries that are being completed or dropped.
    maybe: BTreeMap<u64, Entry>,
    /// The highest grant that was noted, and the highest that may have been.
    floor: (u64, u64),
    segment: (u128, u128),
    epoch: (u64, u64),
}

impl Moment {
    fn first() -> Self {
        Self {
            words: vec![0; WORDS],
            bytes: vec![0; LEN as usize],
            sure: BTreeMap::new(),
            maybe: BTreeMap::new(),
            floor: (0, 0),
            segment: (1, 1),
            epoch: (0, 0),
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Word { index, value } => self.words[*index] = *value,
            Step::Byte { at, grant } => self.bytes[*at as usize] = *grant,
            Step::Begins(change) => self.begin(change),
            Step::Is(change) => self.end(change),
            Step::IsNotKept { offset } => drop(self.maybe.remove(offset)),
        }
    }

    fn begin(&mut self, change: &Change) {
        match change {
            Change::Complete { offset, entry } => {
                assert!(self.maybe.insert(*offset, entry.clone()).is_none());
            }
            Change::Epoch(epoch) => self.epoch.1 = self.epoch.1.max(*epoch),
            other => {
                if let Change::StartEmpty { segment } = other {
                    self.segment.1 = *segment;
                }
                self.floor.1 = self.floor.1.max(noted_grant(other));
                for (offset, entry) in
                    self.sure.extract_if(.., |at, entry| is_dropped(other, *at, entry))
                {
                    self.maybe.insert(offset, entry);
                }
            }
        }
    }

    fn end(&mut self, change: &Change) {
        match change {
            Change::Complete { offset, .. } => {
                let entry = self.maybe.remove(offset).expect("it began");
                self.sure.insert(*offset, entry);
            }
            Change::Epoch(epoch) => self.epoch.0 = self.epoch.0.max(*epoch),
            other => {
                if let Change::StartEmpty { segment } = other {
                    self.segment.0 = *segment;
                }
                self.floor.0 = self.floor.0.max(noted_grant(other));
                self.maybe.retain(|at, entry| !is_dropped(other, *at, entry));
            }
        }
    }

    /// Ends the process here, and has the next one open its file.
    fn restore(&self, log: &Rc<RefCell<Vec<Step>>>) -> (EntryRows<Recorded>, Ledger) {
        self.restore_broken(log, Broken::Nothing)
    }

    fn restore_broken(
        &self,
        log: &Rc<RefCell<Vec<Step>>>,
        broken: Broken,
    ) -> (EntryRows<Recorded>, Ledger) {
        let words = RefCell::new(self.words.clone());
        let words = Recorded { words, log: Rc::clone(log), broken };
        let restored = EntryRows::restore(words, LEN).unwrap_or_else(|error| panic!("{error}"));
        (restored.rows, restored.ledger)
    }

    /// Takes the state of unfinished changes from what the next process finds.
    fn settle(&mut self) {
        let (kept, ledger) = self.restore(&Rc::default());
        self.sure = ledger.entries().map(|(offset, entry)| (offset, entry.clone())).collect();
        self.maybe.clear();
        let floor = kept.record.floor().map_or(0, |floor| floor.counter);
        let (segment, epoch) = (kept.segment().0, kept.epoch().0);
        (self.floor, self.segment, self.epoch) =
            ((floor, floor), (segment, segment), (epoch, epoch));
    }

    fn check(&self) {
        let (kept, ledger) = self.restore(&Rc::default());
        let mut missing = self.sure.clone();
        for (offset, entry) in ledger.entries() {
            let expected = missing.remove(&offset).or_else(|| self.maybe.get(&offset).cloned());
            assert_eq!(Some(entry), expected.as_ref(), "at {offset}");
            let bytes = &self.bytes[offset as usize..(offset + entry.len) as usize];
            let is_its = |&grant: &u64| grant == entry.grant.counter;
            assert!(bytes.iter().all(is_its), "{entry:?} at {offset} has the bytes {bytes:?}");
        }
        assert_eq!(missing, BTreeMap::new(), "lost");
        let floor = kept.record.floor().map_or(0, |floor| floor.counter);
        assert!((self.floor.0..=self.floor.1).contains(&floor), "{floor} of {:?}", self.floor);
        let (segment, epoch) = (kept.segment().0, kept.epoch().0);
        assert!(segment == self.segment.0 || segment == self.segment.1, "{segment}");
        assert!((self.epoch.0..=self.epoch.1).contains(&epoch), "{epoch} of {:?}", self.epoch);
    }
}

/// The grant that a change notes; zero for none.
fn noted_grant(change: &Change) -> u64 {
    match change {
        Change::Take { grant, .. } | Change::Drop { grant, .. } => *grant,
        Change::Complete { .. } | Change::StartEmpty { .. } | Change::Epoch(_) => 0,
    }
}

/// Whether a change drops the entry that starts here.
fn is_dropped(change: &Change, at: u64, entry: &Entry) -> bool {
    let end = at + entry.len;
    match change {
        Change::Take { range, .. } => range.start < end && at < range.end,
        Change::Drop { offset, grant } => {
            (at..end).contains(offset) && entry.grant.counter < *grant
        }
        Change::StartEmpty { .. } => true,
        Change::Complete { .. } | Change::Epoch(_) => false,
    }
}

/// Number of versions that each leader grants.
const EPOCH_COUNTERS: u64 = 16;

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(counter / EPOCH_COUNTERS), counter }
}

fn made() -> Moment {
    let mut moment = Moment::first();
    let log = Rc::default();
    let words = RefCell::new(moment.words.clone());
    let words = Recorded { words, log: Rc::clone(&log), broken: Broken::Nothing };
    let kept = EntryRows::empty(words, SegmentId(1));
    assert_eq!(kept.segment(), SegmentId(1));
    log.borrow().iter().for_each(|step| moment.apply(step));
    moment
}

/// Runs a process to its end, checks each moment of it, and returns one of them.
fn run(moment: &Moment, seed: u64, actions: usize, broken: Broken) -> Moment {
    let mut process = Process::start(moment, Chance::new(seed), broken);
    (0..actions).for_each(|_| process.act());
    let steps = process.log.take();
    let end = Chance::new(!seed).below(steps.len() as u64 + 1) as usize;
    let (mut now, mut at_end) = (moment.clone(), moment.clone());
    now.settle();
    for (count, step) in steps.iter().enumerate() {
        now.apply(step);
        now.check();
        if count < end {
            at_end = now.clone();
        }
    }
    at_end
}

/// Runs some processes with one segment, each from a moment of the process before.
fn live(seed: u64, broken: Broken) {
    let mut moment = made();
    for life in 0..4 {
        moment = run(&moment, seed << 8 | life, 60, broken);
    }
}

#[test]
fn whenever_the_process_ends_the_next_one_finds_what_was_acknowledged_and_no_torn_byte() {
    for seed in 0..150 {
        println!("seed {seed}");
        live(seed, Broken::Nothing);
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    use Broken::{Completion, Drop, Floor, Order, Withdrawal};
    for broken in [Order, Withdrawal, Completion, Drop, Floor] {
        let is_noticed = |seed| std::panic::catch_unwind(|| live(seed, broken)).is_err();
        assert!((0..20).any(is_noticed), "{broken:?} passes");
    }
}

#[test]
fn grants_of_before_are_refused_after_a_restart() {
    let mut process = Process::start(&made(), Chance::new(1), Broken::Nothing);
    let range = RangeWrite {
        segment: SegmentId(1),
        offset: 0,
        entry_len: 4,
        from: 0,
        len: 4,
        key: "key",
        version: version(5),
        grant: version(5),
        object_len: 4,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    };
    assert!(process.take(&range), "nothing is there");
    let mut moment = made();
    process.log.borrow().iter().for_each(|step| moment.apply(step));
    let (_, mut ledger) = moment.restore(&Rc::default());
    let elsewhere = RangeWrite { offset: 20, ..range };
    let refused = Err(mooncake_types::ErrorCode::InvalidVersion);
    assert_eq!([ledger.begin(&range), ledger.begin(&elsewhere)], [refused.clone(), refused]);
    let newer = RangeWrite { version: version(6), grant: version(6), ..range };
    assert!(ledger.begin(&newer).is_ok());
}

#[test]
fn rows_that_nobody_wrote_are_none() {
    let entry = Entry::restored(
        &RangeWrite {
            segment: SegmentId(0),
            offset: 3,
            entry_len: 4,
            from: 0,
            len: 4,
            key: "a key",
            version: version(5),
            grant: version(6),
            object_len: 9,
            object_offset: 2,
            attributes: b"attributes",
            seal: Seal::NONE,
        },
        Some([7].into()),
    );
    let mut bytes = Vec::new();
    row::write(&mut bytes, 3, &entry);
    let read = row::read(&bytes).expect("it was written");
    assert_eq!(Entry::restored(&read.range, read.checksums), entry);
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        row::read(&bytes).is_none()
    };
    assert!(row::read(&[]).is_none() && row::read(&bytes[..bytes.len() - 1]).is_none());
    assert!(spoilt(64, 6), "a longer key");
    assert!(spoilt(66, 11), "longer attributes");
    assert!(spoilt(68, 0), "fewer checksums");
    assert!(spoilt(71, 255), "very many checksums");
    assert!(spoilt(72, 255), "a key that is no text");
}
