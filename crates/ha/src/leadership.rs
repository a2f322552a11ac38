use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_types::Epoch;

use crate::backend::{Backend, Term, Won};
use crate::epoch::epoch_of_now;
use crate::{Change, CoordinatorError, Options, Record, boot_time};

/// The part of a lease that its holder uses, in tenths. The rest covers the drift between its clock and the
/// successor's.
const USED_TENTHS: u32 = 9;

/// How long a leadership lasts without a renewal, and for how long after that it may be resumed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTimes {
    pub(crate) ttl: Duration,
    /// See [`Options::suspension`].
    pub(crate) suspension: Duration,
    /// See [`Backend::waits_for_leases`].
    pub(crate) are_waited_for: bool,
}

impl LeaseTimes {
    pub(crate) fn of(options: &Options, backend: &dyn Backend) -> Self {
        let are_waited_for = backend.waits_for_leases();
        Self { ttl: options.ttl, suspension: options.suspension, are_waited_for }
    }
}

/// How long a leadership without a lease is valid.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The right to lead a cluster, under one epoch, for as long as it is renewed.
///
/// All clones are the same leadership. If the last one is dropped without [`Leadership::resign`], other masters see
/// the same as if the process had died.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
}

struct Shared {
    epoch: Epoch,
    /// `None`: no other master can lead, so nothing has to be renewed.
    times: Option<LeaseTimes>,
    term: Box<dyn Term>,
    record: Mutex<Record>,
    began: Instant,
    /// Until when the leadership is valid unless it is over, in nanoseconds after `began`.
    valid_ns: AtomicU64,
    is_over: AtomicBool,
    /// See [`Leadership::silence`].
    silence: Mutex<Option<Silence>>,
}

/// A coordinator that could not be asked since a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// When it could not be asked for the first time since it last answered.
    pub since: Instant,
    /// Why it could not be asked then. Names the coordinator.
    pub reason: String,
}

impl Silence {
    /// A silence that begins with this error.
    #[must_use]
    pub fn begin(error: &CoordinatorError) -> Self {
        Self { since: boot_time::now(), reason: error.to_string() }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lasts = boot_time::now().saturating_duration_since(self.since);
        write!(f, "no coordinator since {} s: {}", lasts.as_secs(), self.reason)
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { epoch, term, .. } = &*self.shared;
        f.debug_struct("Leadership").field("epoch", epoch).field("term", term).finish()
    }
}

/// Why [`Leadership::keep`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The caller stopped it. The lease may still be valid.
    Stopped,
    /// Another master leads, or may lead, or this one resigned.
    Deposed,
    /// The lease could not be renewed in time, nor resumed within the suspension.
    Expired,
}

impl Leadership {
    pub(crate) fn begin(won: Won, times: Option<LeaseTimes>) -> Self {
        let lasts = times.map_or(FOR_EVER, |times| used_part(times.ttl));
        let shared = Shared {
            epoch: won.record.epoch(),
            times,
            term: won.term,
            record: Mutex::new(won.record),
            began: won.asked_at,
            valid_ns: AtomicU64::new(nanoseconds(lasts)),
            is_over: AtomicBool::new(false),
            silence: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Since when the coordinator cannot be asked whether this leadership still holds; `None` if it answered last.
    #[must_use]
    pub fn silence(&self) -> Option<Silence> {
        self.lock_silence().clone()
    }

    fn lock_silence(&self) -> MutexGuard<'_, Option<Silence>> {
        self.shared.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of this leadership, higher than all before. It is at least the wall clock in milliseconds at its
    /// beginning, unless that is far above all before ([`Epoch::next`]).
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// Until then no other master leads, whatever happens. Each renewal moves it.
    #[must_use]
    pub fn valid_until(&self) -> Instant {
        if self.shared.is_over.load(Ordering::Acquire) {
            return self.shared.began;
        }
        self.shared.began + Duration::from_nanos(self.shared.valid_ns.load(Ordering::Acquire))
    }

    /// Until then the leadership may be resumed if it could not be renewed. Others may lead in between. Each renewal
    /// moves it.
    #[must_use]
    pub fn lasts_until(&self) -> Instant {
        match self.shared.is_over.load(Ordering::Acquire) {
            true => self.shared.began,
            false => self.valid_until() + used_part(self.suspension()),
        }
    }

    /// How long a leadership of this cluster may be resumed after its lease. Zero: not at all, or there is no lease.
    #[must_use]
    pub fn suspension(&self) -> Duration {
        self.shared.times.map_or(Duration::ZERO, |times| times.suspension)
    }

    /// Until then no other master leads even if this process dies now, unless it resigns first. `None` if another may
    /// lead at once when it dies.
    #[must_use]
    pub fn lease_end(&self) -> Option<Instant> {
        self.shared.times.filter(|times| times.are_waited_for).map(|_| self.valid_until())
    }

    /// How long the previous leader's lease could still last when this leadership began: zero unless that leader
    /// resigned.
    #[must_use]
    pub fn former_lease(&self) -> Duration {
        let times = self.shared.times.filter(|_| self.lock_record().follows_resigned());
        times.map_or(Duration::ZERO, |times| times.ttl)
    }

    /// Whether the leadership is valid now. Cheap: it is asked before each answer of a master.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        boot_time::now() < self.valid_until()
    }

    /// Restarts the lease from now, and returns until when the leadership is valid. A lease that is over is resumed,
    /// if no other master has led since.
    ///
    /// # Errors
    /// `Deposed`: the leadership is over. Others: it lasts as long as before, and may be renewed again.
    pub fn renew(&self) -> Result<Instant, CoordinatorError> {
        let Some(times) = self.shared.times else { return Ok(self.valid_until()) };
        self.refuse_if_over()?;
        let asked_at = boot_time::now();
        match self.is_valid() {
            true => self.noticing(self.shared.term.renew())?,
            false => self.resume()?,
        }
        let lasts = asked_at.duration_since(self.shared.began) + used_part(times.ttl);
        self.shared.valid_ns.fetch_max(nanoseconds(lasts), Ordering::AcqRel);
        Ok(self.valid_until())
    }

    fn resume(&self) -> Result<(), CoordinatorError> {
        // The lock keeps writes out meanwhile.
        let record = self.lock_record();
        let resumed = self.shared.term.resume(record.epoch());
        if matches!(resumed, Err(CoordinatorError::Deposed { .. })) {
            self.end();
        }
        resumed
    }

    /// Renews the lease until the leadership ends or `stop` is set. Meant for a thread of its own: unpark it after
    /// setting `stop`.
    pub fn keep(&self, stop: &AtomicBool) -> Ended {
        let (mut failures, mut is_suspended) = (0_u32, false);
        let epoch = self.epoch().0;
        loop {
            if stop.load(Ordering::Acquire) {
                return Ended::Stopped;
            }
            match self.renew() {
                Ok(_) => {
                    failures = 0;
                    *self.lock_silence() = None;
                }
                Err(CoordinatorError::Deposed { .. }) => return Ended::Deposed,
                Err(error) => {
                    if failures == 0 {
                        tracing::warn!(epoch, "the lease was not renewed: {error}");
                    }
                    failures += 1;
                    self.lock_silence().get_or_insert_with(|| Silence::begin(&error));
                }
            }
            if self.shared.is_over.load(Ordering::Acquire) {
                return Ended::Deposed;
            }
            if boot_time::now() >= self.lasts_until() {
                return Ended::Expired;
            }
            match (std::mem::replace(&mut is_suspended, !self.is_valid()), is_suspended) {
                (false, true) => {
                    tracing::warn!(epoch, "the lease is over, and nobody says who leads");
                }
                (true, false) => tracing::info!(epoch, "nobody has led since the lease was over"),
                _ => {}
            }
            self.wait_for_the_next_renewal(failures, stop);
        }
    }

    /// Waits a quarter of the lease after a renewal, and less after a failed one.
    fn wait_for_the_next_renewal(&self, failures: u32, stop: &AtomicBool) {
        let pause = match (self.shared.times, failures) {
            (None, _) => FOR_EVER,
            (Some(times), 0) => times.ttl / 4,
            (Some(times), _) => times.ttl / 20,
        };
        let end = if self.is_valid() { self.valid_until() } else { self.lasts_until() };
        let until = (boot_time::now() + pause).min(end);
        loop {
            let left = until.saturating_duration_since(boot_time::now());
            if left.is_zero() || stop.load(Ordering::Acquire) {
                return;
            }
            thread::park_timeout(left);
        }
    }

    /// Gives the leadership back, so that another master leads at once. It is over, whatever this returns.
    ///
    /// # Errors
    /// The coordinator could not be told. Other masters wait for the end of the lease.
    pub fn resign(&self) -> Result<(), CoordinatorError> {
        if self.shared.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let is_before_its_end = self.lease_end().is_some_and(|end| boot_time::now() < end);
        // This master stops answering before another one may begin.
        self.end();
        // Waits for a write under way, which the next leader must see or refuse.
        let record = self.lock_record();
        if is_before_its_end {
            // The routes of this leader are valid until its lease would have ended. The record tells the next leader
            // so.
            self.shared.term.write(&record.resigned())?;
        }
        self.shared.term.resign()
    }

    /// The record as it was when the leadership began, with all changes applied since.
    #[must_use]
    pub fn record(&self) -> Record {
        self.lock_record().clone()
    }

    /// Applies changes to the record: all of them, durably, or none.
    ///
    /// # Errors
    /// `Deposed`: none of them is part of the cluster's record. `Unavailable`: unknown, to be applied again while
    /// the leadership is valid. `Full`: none.
    pub fn apply(&self, changes: &[Change]) -> Result<(), CoordinatorError> {
        self.refuse_if_over()?;
        let mut record = self.lock_record();
        let mut next = record.clone();
        let believed = changes.iter().filter(|&&change| self.believes(change));
        believed.for_each(|&change| next.apply(change));
        if next.about_bytes() > self.room_bytes() {
            next.shorten();
        }
        if next.members().len() > record.members().len() {
            self.refuse_if_full(&next)?;
        }
        let was_valid = self.is_valid();
        let written = self.shared.term.write(&next);
        // After the end of a lease, only an attempt to resume it tells for sure whether it is lost.
        if was_valid {
            self.noticing(written)?;
        } else {
            written?;
        }
        *record = next;
        Ok(())
    }

    /// Whether a change is credible. No leader's epoch is far above this one's or the wall clock, and an epoch stays
    /// in the record for good.
    fn believes(&self, change: Change) -> bool {
        let Change::RaiseEpoch(epoch) = change else { return true };
        let known = self.shared.epoch.max(epoch_of_now());
        let is_credible = epoch.is_credible(known);
        if !is_credible {
            tracing::warn!(%epoch, %known, "an epoch from nowhere does not go into the record");
        }
        is_credible
    }

    /// Refuses members unless there is room left to mark some of them behind: otherwise no removal could be
    /// acknowledged.
    fn refuse_if_full(&self, next: &Record) -> Result<(), CoordinatorError> {
        let (len_bytes, limit_bytes) = (next.about_bytes(), self.room_bytes());
        match len_bytes <= limit_bytes {
            true => Ok(()),
            false => {
                let place = "the membership record".to_owned();
                Err(CoordinatorError::Full { place, len_bytes, limit_bytes })
            }
        }
    }

    /// Room for members, without that for marks.
    fn room_bytes(&self) -> usize {
        let limit_bytes = self.shared.term.limit_bytes();
        limit_bytes - limit_bytes / 32
    }

    fn lock_record(&self) -> MutexGuard<'_, Record> {
        self.shared.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuse_if_over(&self) -> Result<(), CoordinatorError> {
        match self.shared.is_over.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(CoordinatorError::Deposed {
                epoch: self.shared.epoch,
                reason: "it was given back or taken before".to_owned(),
            }),
        }
    }

    /// Ends the leadership if the result shows that it is lost. An answer that comes after the end of the lease may
    /// only mean that the lease is over.
    fn noticing(&self, result: Result<(), CoordinatorError>) -> Result<(), CoordinatorError> {
        match result {
            Err(CoordinatorError::Deposed { epoch, reason }) if !self.is_valid() => {
                Err(CoordinatorError::unavailable(format!("the place of epoch {epoch}"), reason))
            }
            Err(error @ CoordinatorError::Deposed { .. }) => {
                self.end();
                Err(error)
            }
            result => result,
        }
    }

    fn end(&self) {
        self.shared.is_over.store(true, Ordering::Release);
    }
}

fn used_part(ttl: Duration) -> Duration {
    ttl / 10 * USED_TENTHS
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    /// A place that answers slowly.
    #[derive(Debug)]
    struct Slow {
        takes: Duration,
        answer: Result<(), CoordinatorError>,
    }

    impl Slow {
        fn answer(&self) -> Result<(), CoordinatorError> {
            thread::sleep(self.takes);
            self.answer.clone()
        }
    }

    impl Term for Slow {
        fn renew(&self) -> Result<(), CoordinatorError> {
            self.answer()
        }

        fn write(&self, _: &Record) -> Result<(), CoordinatorError> {
            self.answer()
        }

        fn resign(&self) -> Result<(), CoordinatorError> {
            self.answer()
        }
    }

    fn leadership(takes_ms: u64, answer: Result<(), CoordinatorError>) -> Leadership {
        let term = Box::new(Slow { takes: Duration::from_millis(takes_ms), answer });
        let record = Record::empty().succeed(Epoch(7));
        let times = LeaseTimes { ttl: TTL, suspension: Duration::ZERO, are_waited_for: true };
        Leadership::begin(Won { term, record, asked_at: boot_time::now() }, Some(times))
    }

    fn deposed() -> CoordinatorError {
        CoordinatorError::Deposed { epoch: Epoch(7), reason: "test".to_owned() }
    }

    #[test]
    fn a_lease_counts_from_before_it_was_asked_for() {
        const ANSWER_MS: u64 = 50;
        let leadership = leadership(ANSWER_MS, Ok(()));
        let asked_at = boot_time::now();
        let until = leadership.renew().expect("it is renewed");
        let latest = boot_time::now() - Duration::from_millis(ANSWER_MS) + TTL / 10 * 9;
        assert!((asked_at + TTL / 10 * 9..=latest).contains(&until));
    }

    #[test]
    fn nothing_is_valid_any_more_once_it_was_found_over() {
        type Act = fn(&Leadership) -> Result<(), CoordinatorError>;
        let renew: Act = |leadership| leadership.renew().map(|_| ());
        let apply: Act = |leadership| leadership.apply(&[]);
        for act in [renew, apply] {
            let leadership = leadership(0, Err(deposed()));
            assert!(leadership.is_valid());
            assert_eq!(act(&leadership), Err(deposed()));
            assert!(!leadership.is_valid() && !leadership.clone().is_valid());
            assert_eq!(leadership.keep(&AtomicBool::new(false)), Ended::Deposed);
        }
    }

    #[test]
    fn a_renewal_that_failed_changes_nothing() {
        let failure = CoordinatorError::unavailable("a test", "no answer");
        let leadership = leadership(0, Err(failure.clone()));
        let until = leadership.valid_until();
        assert_eq!(leadership.renew(), Err(failure));
        assert_eq!(leadership.valid_until(), until);
    }

    #[test]
    fn a_leadership_that_was_given_back_is_over_though_nobody_could_be_told() {
        let failure = CoordinatorError::unavailable("a test", "no answer");
        let leadership = leadership(0, Err(failure.clone()));
        assert_eq!(leadership.resign(), Err(failure));
        assert!(!leadership.is_valid());
        assert!(matches!(leadership.renew(), Err(CoordinatorError::Deposed { .. })));
    }
}
