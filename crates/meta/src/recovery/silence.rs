//! Silence: which segments are *reporting*, so that the leader waits for them.
//!
//! A leader waits without limit for segments that report, however many entries they have. A segment that is mounted
//! and owes pages counts as reporting until no segment has sent a page for
//! [`Config::report_silence_ms`](crate::Config::report_silence_ms). The leader works on one page at a time, so a page of
//! any segment shows that the others may be waiting for their turn.

use std::collections::BTreeSet;

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{SegmentId, Tick};

use crate::Meta;
use crate::segments::{Closed, Segment};
use crate::timer::Timer;

impl Meta {
    /// A segment begins its report, or the leader has taken a page with entries that it did not know.
    pub(super) fn note_progress(&mut self) {
        self.recovery.progressed_at = self.now;
    }

    /// Whether a segment is reporting.
    pub(super) fn is_reporting(&self, segment: &Segment) -> bool {
        segment.recovering.is_some()
            && segment.serves()
            && segment.is(Closed::Recovering)
            && self.now < self.silent_from()
            && !is_broken(Rule::ReportersAreAwaited)
    }

    /// When segments that owe pages count as silent, unless another page comes.
    fn silent_from(&self) -> Tick {
        self.recovery.progressed_at.after_ms(self.config.report_silence_ms)
    }

    /// Whether one of these segments is reporting.
    pub(super) fn is_one_reporting(&self, of: &BTreeSet<SegmentId>) -> bool {
        let mut slots = of.iter().filter_map(|&id| self.segments.find(id));
        slots.any(|slot| self.is_reporting(&self.segments[slot]))
    }

    /// Has the state machine look again for segments that fell silent.
    pub(super) fn await_silence(&mut self) {
        self.look_for_silence_at(self.silent_from().max(self.now.after_ms(1)));
    }

    /// Looks once more at this time which members are silent.
    pub(super) fn look_for_silence_at(&mut self, due: Tick) {
        if !std::mem::replace(&mut self.recovery.awaits_silence, true) {
            self.timers.insert((due, Timer::Silence));
        }
    }

    /// Segments that were reporting may have fallen silent.
    pub(crate) fn silence_due(&mut self, due: Tick) {
        self.recovery.awaits_silence = false;
        if self.was_held_up(due) {
            self.note_progress();
        }
        self.advance_recovery();
        self.give_up_silent();
    }
}
