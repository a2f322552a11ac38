//! Soft pins: for a limited time, eviction takes these objects only when it finds no others.

use mooncake_types::{ErrorCode, SoftPin, Tick};

use super::index::check_key;
use super::record::{Pin, QueueKind};
use super::soft_pins::Deadline;
use crate::Meta;
use crate::config::Config;
use crate::slab::NONE;
use crate::timer::Timer;

/// The pin that a put asks for. Of a soft pin also its length in milliseconds, and whether it slides.
pub(super) fn resolve(
    config: &Config,
    hard: bool,
    soft: SoftPin,
) -> Result<(Pin, Option<(u64, bool)>), ErrorCode> {
    let wanted = match soft {
        SoftPin::Preserve | SoftPin::Disable => None,
        SoftPin::Sliding => Some((config.soft_pin_ttl_ms, true)),
        SoftPin::Enable { ttl_ms } => {
            let ttl_ms = ttl_ms.unwrap_or(config.soft_pin_ttl_ms);
            if ttl_ms > config.max_soft_pin_ttl_ms {
                return Err(ErrorCode::InvalidParams);
            }
            Some((ttl_ms, false))
        }
    };
    match wanted.filter(|&(ttl_ms, _)| ttl_ms > 0) {
        _ if hard => Ok((Pin::Hard, None)),
        Some(pin) => Ok((Pin::Soft, Some(pin))),
        None => Ok((Pin::None, None)),
    }
}

impl Meta {
    /// Soft-pins an object for `ttl_ms` from now on, whatever its put asked for; 0 ends its soft pin, at the end of its
    /// lease at the earliest. A hard pin stays. A pin counts as an access: it grants a lease.
    ///
    /// # Errors
    /// - [`ErrorCode::InvalidParams`]: the time is longer than any soft pin may be.
    /// - Otherwise as a read.
    pub fn soft_pin(&mut self, now: Tick, key: &str, ttl_ms: u64) -> Result<(), ErrorCode> {
        self.advance(now);
        if ttl_ms > self.config.max_soft_pin_ttl_ms {
            return Err(ErrorCode::InvalidParams);
        }
        check_key(key)?;
        let object = self.find_finished(key)?;
        match (self.objects[object].pin, ttl_ms) {
            (Pin::Hard, _) => {}
            (_, 0) => self.end_soft_pin(object),
            _ => {
                self.forget_soft_pin(object);
                self.objects.at_mut(object).pin = Pin::Soft;
                self.note_soft_pin(object, (ttl_ms, false));
                self.begin_soft_pin(object);
                // The queue of leased ranges is in the order of the leases' ends.
                self.lease_anew(object);
            }
        }
        Ok(())
    }

    fn end_soft_pin(&mut self, object: u32) {
        let Some(pin) = self.soft_pins.known.get_mut(&object) else { return };
        (pin.sliding, pin.ttl_ms, pin.until) = (false, 0, self.now);
        if let Some(due) = pin.timer {
            self.timers.remove(&(due, Timer::SoftPin(object)));
            self.soft_pin_due(object);
        }
    }

    /// Notes the soft pin that a put asked for. It comes into force when the object becomes readable.
    pub(crate) fn note_soft_pin(&mut self, object: u32, (ttl_ms, sliding): (u64, bool)) {
        let pin = Deadline { sliding, ttl_ms, until: Tick::ZERO, timer: None };
        self.soft_pins.known.insert(object, pin);
    }

    /// Puts an object's soft pin into force from now on. A pin in force that does not slide keeps the deadline that
    /// it took over from an older version.
    pub(crate) fn begin_soft_pin(&mut self, object: u32) {
        let now = self.now;
        let Some(pin) = self.soft_pins.known.get_mut(&object) else { return };
        if pin.in_force() && !pin.sliding {
            return;
        }
        pin.until = now.after_ms(pin.ttl_ms);
        if pin.timer.is_none() {
            pin.timer = Some(pin.until);
            self.timers.insert((pin.until, Timer::SoftPin(object)));
            self.count_soft_pin(object, true);
        }
    }

    /// Counts an object's soft pin, which came into force or ended.
    fn count_soft_pin(&mut self, object: u32, in_force: bool) {
        let change = if in_force { 1 } else { -1 };
        self.soft_pins.in_force = self.soft_pins.in_force.strict_add_signed(change);
        let group = self.objects[object].group;
        if group != NONE {
            self.groups.count_soft(group, change as i32);
        }
    }

    /// Gives the soft pin of a replaced object to the version that replaces it, if the pin slides or has time left.
    pub(super) fn hand_over_soft_pin(&mut self, old: u32, new: u32) {
        let Some(mut pin) = self.soft_pins.known.get(&old).copied() else { return };
        let in_force = pin.in_force() && pin.until > self.now;
        if !in_force && !pin.sliding {
            return;
        }
        pin.timer = in_force.then_some(pin.until);
        self.soft_pins.known.insert(new, pin);
        self.objects.at_mut(new).pin = Pin::Soft;
        if in_force {
            self.timers.insert((pin.until, Timer::SoftPin(new)));
            self.count_soft_pin(new, true);
        }
    }

    /// Starts a sliding soft pin anew, because its object was accessed.
    pub(super) fn slide_soft_pin(&mut self, object: u32) {
        if self.soft_pins.known.get(&object).is_some_and(|pin| pin.sliding) {
            self.begin_soft_pin(object);
        }
    }

    /// Ends a soft pin whose timer fires, unless the pin was prolonged.
    pub(crate) fn soft_pin_due(&mut self, object: u32) {
        let leased_until = self.objects[object].leased_until();
        let pin = self.soft_pins.known.get_mut(&object).expect("a soft pin goes with its timer");
        // The pin lasts at least as long as the lease. The queue of leased ranges is in the order of the leases'
        // ends, so this object could not join it in its place.
        let until = pin.until.max(leased_until);
        if until > self.now {
            pin.timer = Some(until);
            self.timers.insert((until, Timer::SoftPin(object)));
            return;
        }
        pin.timer = None;
        self.count_soft_pin(object, false);
        self.requeue(object, QueueKind::Fresh);
    }

    /// Forgets an object's soft pin, because the object loses its key or its record.
    pub(super) fn forget_soft_pin(&mut self, object: u32) {
        if self.objects[object].pin != Pin::Soft {
            return;
        }
        if let Some(due) = self.soft_pins.known.remove(&object).and_then(|pin| pin.timer) {
            self.timers.remove(&(due, Timer::SoftPin(object)));
            self.count_soft_pin(object, false);
        }
    }

    pub(super) fn soft_pin_in_force(&self, object: u32) -> bool {
        self.objects[object].pin == Pin::Soft
            && self.soft_pins.known.get(&object).is_some_and(Deadline::in_force)
    }
}
