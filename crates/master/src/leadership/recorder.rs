//! Writes the membership record, on a thread of its own: a disk or a coordinator may be slow, and the owner never
//! waits for it.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_ha::{Change, CoordinatorError, boot_time};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::lateness::{Lateness, PATIENCE};
use super::term::Authority;
use super::term::Term;

/// Most changes in one write; the rest is written next.
const MAX_BATCH: usize = 1024;

/// The first pause after a failed write; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How long a stopping master waits for a write under way.
const LAST_PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5_000 });

/// Time between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A requested change is not known to be in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRecorded {
    /// The change may be in the record now or later.
    #[error("the membership record cannot be written")]
    Late,
    /// The change is not in the record, and will not be.
    #[error("the membership record has no room for another segment")]
    Full,
}

/// The master stops, and a write under way is not known to be in the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the membership record was not written: its disk or coordinator says nothing")]
pub struct Unwritten;

/// The side that asks for changes. When it is dropped, the thread tries pending changes once more.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Bounded by the number of waiting connections and changing segments.
    orders: Sender<Order>,
    thread: RefCell<Option<JoinHandle<()>>>,
    lateness: Lateness,
}

enum Order {
    Write(QueuedChanges),
    /// No more changes follow.
    Finish,
}

struct QueuedChanges {
    changes: Vec<Change>,
    /// The caller that waits for them; `None` for effects of the state machine.
    waiter: Option<(oneshot::Sender<Result<(), NotRecorded>>, Instant)>,
}

impl Recorder {
    /// Starts the thread, which sends durable effects to `recorded`.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn start(
        term: &Term,
        recorded: mpsc::UnboundedSender<Vec<Change>>,
    ) -> io::Result<Recorder> {
        let (orders, asked) = channel();
        let (lateness, pause) = (Lateness::default(), FIRST_PAUSE);
        let of_writer = lateness.clone();
        let mut writer = Writer { term: term.clone(), recorded, pause, lateness: of_writer };
        let thread = thread::Builder::new().name("record".to_owned());
        let thread = thread.spawn(move || writer.run(&asked))?;
        Ok(Recorder { orders, thread: RefCell::new(Some(thread)), lateness })
    }

    /// Tells how late pending changes are.
    pub(crate) fn lateness(&self) -> Lateness {
        self.lateness.clone()
    }

    /// Waits until these changes are durable.
    ///
    /// # Errors
    /// They could not be made in time, or the leadership is over.
    pub(crate) async fn record(&self, changes: Vec<Change>) -> Result<(), NotRecorded> {
        // A caller would wait in vain, and pending changes would pile up.
        if self.lateness.is_hopeless() {
            return Err(NotRecorded::Late);
        }
        let (done, written) = oneshot::channel();
        self.ask(QueuedChanges { changes, waiter: Some((done, Instant::now())) });
        // The thread may be blocked in a write that does not return.
        match timeout(PATIENCE, written).await {
            Ok(Ok(result)) => result,
            _ => Err(NotRecorded::Late),
        }
    }

    /// Makes effects of the state machine durable, in the order of the calls.
    pub(crate) fn note(&self, changes: Vec<Change>) {
        self.ask(QueuedChanges { changes, waiter: None });
    }

    fn ask(&self, entry: QueuedChanges) {
        // An error means that the leadership is over, which ends all that waits for the entry.
        let _ = self.orders.send(Order::Write(entry));
    }

    /// Has pending changes tried once more, and waits for the thread.
    ///
    /// # Errors
    /// The write under way does not end. Its thread is left alone.
    pub(crate) fn finish(&self) -> Result<(), Unwritten> {
        // An error means that the thread has ended.
        let _ = self.orders.send(Order::Finish);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() >= LAST_PATIENCE {
                return Err(Unwritten);
            }
            thread::sleep(LOOK);
        }
        if thread.join().is_err() {
            error!("the thread that keeps the record panicked");
        }
        Ok(())
    }
}

struct Writer {
    term: Term,
    recorded: mpsc::UnboundedSender<Vec<Change>>,
    pause: Duration,
    lateness: Lateness,
}

impl Writer {
    fn run(&mut self, asked: &Receiver<Order>) {
        let mut due: Vec<QueuedChanges> = Vec::new();
        loop {
            let is_last = !gather(asked, &mut due, self.pause);
            due.retain_mut(is_patient);
            match self.write(&mut due) {
                Ok(()) => self.lateness.end(),
                Err(error @ CoordinatorError::Deposed { .. }) => {
                    info!(%error, "the membership record was not changed");
                    return self.term.end();
                }
                Err(error) => {
                    if self.pause == FIRST_PAUSE {
                        warn!(%error, "the membership record cannot be written; it is tried again");
                    }
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
            if is_last {
                return;
            }
        }
    }

    /// Writes all due entries, in batches.
    fn write(&mut self, due: &mut Vec<QueuedChanges>) -> Result<(), CoordinatorError> {
        while !due.is_empty() {
            self.lateness.begin();
            let mut count = 0;
            let fits = |entry: &&QueuedChanges| {
                count += entry.changes.len();
                count <= MAX_BATCH
            };
            let entries = due.iter().take_while(fits).count().max(1);
            let changes: Vec<Change> =
                due[..entries].iter().flat_map(|entry| entry.changes.iter().cloned()).collect();
            match self.apply(&changes) {
                Err(CoordinatorError::Full { .. }) => self.write_what_fits(due, entries)?,
                applied => {
                    applied?;
                    due.drain(..entries).for_each(|entry| self.announce(entry));
                }
            }
            if self.pause > FIRST_PAUSE {
                info!("the membership record can be written again");
                self.pause = FIRST_PAUSE;
            }
            self.lateness.end();
        }
        Ok(())
    }

    /// Writes these entries one by one, since together they do not fit. A segment without room is refused, and delays
    /// no other entry.
    fn write_what_fits(
        &self,
        due: &mut Vec<QueuedChanges>,
        entries: usize,
    ) -> Result<(), CoordinatorError> {
        let (mut left, mut outcome) = (Vec::new(), Ok(()));
        for mut entry in due.drain(..entries).collect::<Vec<_>>() {
            // After a failure, no further entry is tried: the coordinator itself may have failed.
            let is_over = matches!(&outcome, Err(error) if !is_full(error));
            if is_over {
                left.push(entry);
                continue;
            }
            match (self.apply(&entry.changes), entry.waiter.take()) {
                (Ok(()), waiter) => self.announce(QueuedChanges { waiter, ..entry }),
                (Err(error), Some((waiter, _))) if is_full(&error) => {
                    error!(%error, "a segment is refused: no other can join before one has left");
                    // An error means that the caller has gone.
                    let _ = waiter.send(Err(NotRecorded::Full));
                }
                (Err(error), waiter) => {
                    left.push(QueuedChanges { waiter, ..entry });
                    outcome = Err(error);
                }
            }
        }
        due.splice(0..0, left);
        outcome
    }

    fn apply(&self, changes: &[Change]) -> Result<(), CoordinatorError> {
        // Nothing is tried whose outcome could stay unknown: look-ups are only answered while the record is known.
        if self.term.authority(boot_time::now()) == Authority::Suspended {
            let (place, reason) = ("the coordinator", "the lease is over");
            return Err(CoordinatorError::Unavailable {
                place: place.into(),
                reason: reason.into(),
            });
        }
        self.term.leadership.apply(changes)
    }

    fn announce(&self, entry: QueuedChanges) {
        // An error means that the caller has gone, or that the leadership is over.
        match entry.waiter {
            Some((waiter, _)) => _ = waiter.send(Ok(())),
            None => _ = self.recorded.send(entry.changes),
        }
    }
}

fn is_full(error: &CoordinatorError) -> bool {
    matches!(error, CoordinatorError::Full { .. })
}

/// Collects orders. Waits for the first if no entry is due yet, or only for `pause` if a write failed. False if no
/// further orders come.
fn gather(asked: &Receiver<Order>, due: &mut Vec<QueuedChanges>, pause: Duration) -> bool {
    let first = match due.is_empty() {
        true => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
        false => asked.recv_timeout(pause),
    };
    let orders = match first {
        Ok(order) => std::iter::once(order).chain(asked.try_iter()),
        Err(RecvTimeoutError::Timeout) => return true,
        Err(RecvTimeoutError::Disconnected) => return false,
    };
    for order in orders {
        match order {
            Order::Write(entry) => due.push(entry),
            Order::Finish => return false,
        }
    }
    true
}

/// Whether an entry is tried again. Fails the caller that has waited too long.
fn is_patient(entry: &mut QueuedChanges) -> bool {
    match entry.waiter.take_if(|(_, since)| since.elapsed() > PATIENCE) {
        Some((waiter, _)) => {
            // An error means that the caller has gone.
            let _ = waiter.send(Err(NotRecorded::Late));
            false
        }
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use mooncake_ha::{CampaignOutcome, Candidate, Coordinator, MemoryStore, Options};
    use mooncake_types::{SegmentId, Version};
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn term(store: &MemoryStore) -> Term {
        let options = Options::new("test");
        let coordinator = Coordinator::in_memory(store, &options).expect("good options");
        let candidate = Candidate { address: "a:1".to_owned() };
        match coordinator.campaign(&candidate, LONG).expect("it is reachable") {
            CampaignOutcome::Leads(leadership) => Term::new(leadership),
            CampaignOutcome::Follows(leader) => panic!("{leader:?} leads"),
        }
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async { timeout(LONG, test).await.expect("it ends") });
    }

    fn join(id: u128) -> Change {
        Change::Join(SegmentId(id))
    }

    fn members(term: &Term) -> Vec<u128> {
        term.leadership.record().members().map(|member| member.segment.0).collect()
    }

    #[test]
    fn what_was_waited_for_and_what_was_noted_is_in_the_record() {
        let term = term(&MemoryStore::default());
        let (send, mut recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        run(async {
            assert_eq!(recorder.record(vec![join(1), join(2)]).await, Ok(()));
            assert_eq!(members(&term), [1, 2]);
            let effects = [vec![Change::Strike(SegmentId(1))], vec![join(3), join(4)]];
            effects.iter().for_each(|changes| recorder.note(changes.clone()));
            for changes in effects {
                assert_eq!(recorded.recv().await, Some(changes));
            }
        });
        recorder.note(vec![join(5)]);
        assert_eq!(recorder.finish(), Ok(()));
        assert_eq!(members(&term), [2, 3, 4, 5]);
    }

    #[test]
    fn more_than_fits_into_one_write_is_written_all_the_same() {
        let term = term(&MemoryStore::default());
        let (send, _recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        let count = 3 * MAX_BATCH as u128;
        (0..count).for_each(|id| recorder.note(vec![join(id)]));
        recorder.note((count..2 * count).map(join).collect());
        assert_eq!(recorder.finish(), Ok(()));
        assert!(members(&term).into_iter().eq(0..2 * count));
    }

    #[test]
    fn without_the_coordinator_who_waits_is_told_and_what_was_noted_is_written_later() {
        let store = MemoryStore::default();
        let term = term(&store);
        let (send, mut recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        store.set_reachable(false);
        run(async {
            recorder.note(vec![join(1)]);
            assert_eq!(recorder.record(vec![join(2)]).await, Err(NotRecorded::Late));
            assert!(recorded.is_empty());
            store.set_reachable(true);
            assert_eq!(recorded.recv().await, Some(vec![join(1)]));
        });
        assert_eq!(members(&term), [1]);
    }

    /// A disk that does not answer is worse than one that fails.
    #[test]
    fn a_write_that_does_not_end_keeps_nobody_waiting_and_does_not_hold_up_the_end() {
        let store = MemoryStore::default();
        let term = term(&store);
        let (send, _recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        let lateness = recorder.lateness();
        let stall = store.stall();
        run(async {
            assert_eq!(recorder.record(vec![join(1)]).await, Err(NotRecorded::Late));
            while !lateness.is_hopeless() {
                tokio::time::sleep(LOOK).await;
            }
            let begun = Instant::now();
            for id in 2..100 {
                assert_eq!(recorder.record(vec![join(id)]).await, Err(NotRecorded::Late));
            }
            assert!(begun.elapsed() < PATIENCE, "they were not even asked for");
        });
        assert_eq!(recorder.finish(), Err(Unwritten));
        drop(stall);
        while !lateness.lasts().is_zero() {
            thread::sleep(LOOK);
        }
        assert_eq!(members(&term), [1]);
    }

    #[test]
    fn a_write_that_finds_another_leader_ends_the_term() {
        let store = MemoryStore::default();
        let term = term(&store);
        let (send, _recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        store.depose("test");
        run(async {
            assert_eq!(recorder.record(vec![join(1)]).await, Err(NotRecorded::Late));
            term.over().await;
        });
        assert!(!term.leads(boot_time::now()));
    }

    /// A write without room must not be tried for ever, nor hold up later ones.
    #[test]
    fn a_segment_for_which_the_record_has_no_room_is_refused_and_others_go_on() {
        let store = MemoryStore::default();
        let term = term(&store);
        let (send, mut recorded) = mpsc::unbounded_channel();
        let recorder = Recorder::start(&term, send).expect("a thread");
        store.set_limit(2_000);
        run(async {
            let mut id = 0;
            let refused = loop {
                id += 1;
                assert!(id < 100, "the record never was full");
                match recorder.record(vec![join(id)]).await {
                    Ok(()) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(refused, NotRecorded::Full);
            // Changes that do not make it longer are written, and there is room to mark members as behind.
            let change = |change: Change| vec![change];
            let behind = change(Change::MarkBehind(SegmentId(1), Version::default()));
            let strike = vec![Change::Strike(SegmentId(2)), Change::Strike(SegmentId(3))];
            recorder.note(behind.clone());
            assert_eq!(recorder.record(vec![join(id)]).await, Err(NotRecorded::Full));
            assert_eq!(recorded.recv().await, Some(behind));
            recorder.note(strike.clone());
            assert_eq!(recorded.recv().await, Some(strike));
            assert_eq!(recorder.record(vec![join(id)]).await, Ok(()), "some have left");
            assert!(!recorder.lateness().is_hopeless());
        });
        let known = members(&term);
        assert!(known.contains(&1) && !known.contains(&2), "{known:?}");
    }
}
