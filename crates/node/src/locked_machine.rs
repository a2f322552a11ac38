//! A segment's machine behind a lock: the common part of the shells for memory and for disks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mooncake_transfer::{Interrupt, ReadTicket};
use mooncake_types::{Epoch, ErrorCode, RangeDrop, SegmentId};

use crate::ledger::Ledger;
use crate::machine::{Admission, Effect, SegmentMachine};
use crate::signal::Signal;

/// The machine of a segment that this process lends.
pub(crate) type Machine = SegmentMachine<Arc<dyn Interrupt>>;

/// What the machine tells its shell to do.
pub(crate) type HostEffect<'e> = Effect<'e, Arc<dyn Interrupt>>;

/// Carries out the effects of a machine, under its lock.
pub(crate) trait EffectCarrier: Send {
    /// Carries out one effect.
    fn carry_out(&mut self, effect: &HostEffect<'_>);

    /// Called after each change of the machine.
    fn on_changed(&mut self, _ledger: &Ledger) {}
}

/// A machine, and the carrier of its effects, behind a lock.
pub(crate) struct LockedMachine<C> {
    locked: Mutex<Locked<C>>,
    /// Signalled whenever a writer has stopped or a pin was dropped.
    pub(crate) stopped: Signal,
}

pub(crate) struct Locked<C> {
    pub(crate) machine: Machine,
    pub(crate) carrier: C,
}

impl<C: EffectCarrier> Locked<C> {
    /// Changes the machine, and carries out its effects. The caller must wake the waiters afterwards.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Machine, &mut dyn FnMut(HostEffect<'_>)) -> T,
    ) -> T {
        let Self { machine, carrier } = self;
        let changed = change(machine, &mut |effect| carrier.carry_out(&effect));
        carrier.on_changed(machine.ledger());
        changed
    }
}

impl<C: EffectCarrier> LockedMachine<C> {
    pub(crate) fn new(machine: Machine, carrier: C) -> Self {
        Self { locked: Mutex::new(Locked { machine, carrier }), stopped: Signal::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Locked<C>> {
        self.locked.lock().expect("no holder of the ledger panicked")
    }

    /// The carrier, for the last holder of the machine.
    pub(crate) fn carrier_mut(&mut self) -> &mut C {
        &mut self.locked.get_mut().unwrap_or_else(PoisonError::into_inner).carrier
    }

    /// Changes the machine, carries out its effects, and wakes all waiters.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut Machine, &mut dyn FnMut(HostEffect<'_>)) -> T,
    ) -> T {
        let changed = self.lock().change(change);
        self.stopped.wake_all();
        changed
    }

    /// Looks at the ledger, under its lock: no write or read begins meanwhile.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(self.lock().machine.ledger())
    }

    /// Waits until a writer may change bytes.
    pub(crate) fn wait_for_admission(
        &self,
        mut locked: MutexGuard<'_, Locked<C>>,
        ticket: u64,
        mut now: Instant,
    ) -> Result<(), ErrorCode> {
        loop {
            match locked.machine.admit(ticket, now) {
                Admission::Granted => return Ok(()),
                Admission::Wait(left) => locked = self.stopped.wait(locked, left),
                Admission::Refused(code) => {
                    locked.change(|_, _| ());
                    self.stopped.wake_all();
                    return Err(code);
                }
            }
            now = Instant::now();
        }
    }
}

/// A [`LockedMachine`] with any carrier.
pub(crate) trait AnyLockedMachine: Send + Sync {
    /// The present id of the segment.
    fn id(&self) -> SegmentId;

    /// The highest epoch that it obeys, or is known to have obeyed before.
    fn epoch(&self) -> Epoch;

    /// Obeys an epoch from now on.
    fn obey(&self, epoch: Epoch);

    /// Lends the segment no longer; see [`SegmentMachine::take_back`].
    fn take_back(&self);

    /// Abandons a write: the writer changes no more bytes, and its part is not in place.
    fn abandon(&self, ticket: u64);

    /// Drops an entry; see [`SegmentMachine::drop_entry`]. The drop is durable once
    /// [`SegmentShell::settle`](crate::shell::SegmentShell::settle) returns.
    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode>;

    /// Whether the entry of a ticket is still here, unchanged.
    fn still_holds(&self, ticket: &ReadTicket) -> bool;

    /// Whether the master does not know all that was lost.
    fn has_losses(&self) -> bool;

    /// At most `limit` of the losses that the master does not know; see [`Losses::oldest`](crate::Losses::oldest).
    fn oldest_losses(&self, limit: usize) -> (Vec<(Box<str>, RangeDrop)>, u64);

    /// The master knows all losses before this number.
    fn forget_losses_before(&self, number: u64);
}

impl<C: EffectCarrier> AnyLockedMachine for LockedMachine<C> {
    fn id(&self) -> SegmentId {
        self.lock().machine.id()
    }

    fn epoch(&self) -> Epoch {
        self.lock().machine.epoch()
    }

    fn obey(&self, epoch: Epoch) {
        self.change(|machine, effects| machine.obey(epoch, effects));
    }

    fn take_back(&self) {
        self.change(|machine, effects| machine.take_back(Instant::now(), effects));
    }

    fn abandon(&self, ticket: u64) {
        self.change(|machine, _| machine.abandon(ticket));
    }

    fn drop_entry(&self, range: &RangeDrop) -> Result<(), ErrorCode> {
        self.change(|machine, effects| machine.drop_entry(range, Instant::now(), effects))
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let ReadTicket { offset, version, grant, .. } = *ticket;
        self.look(|ledger| ledger.still_holds(offset, version, grant))
    }

    fn has_losses(&self) -> bool {
        !self.lock().machine.losses().is_empty()
    }

    fn oldest_losses(&self, limit: usize) -> (Vec<(Box<str>, RangeDrop)>, u64) {
        self.lock().machine.losses().oldest(limit)
    }

    fn forget_losses_before(&self, number: u64) {
        self.lock().machine.forget_losses_before(number);
    }
}
