//! How reads and writes share the lanes of a peer: background puts must not make gets wait, nor gets puts.

/// What a call wants a lane for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To read.
    Read,
    /// To write.
    Write,
}

/// How many of one peer's lanes calls hold, and how many calls wait for one; both by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    held: [usize; 2],
    waiting: [usize; 2],
}

impl Shares {
    /// Whether a call may have one of `most` lanes now. Writes always leave one lane to reads. Reads leave one to
    /// writes while a write waits and none has a lane. A single lane serves both in turn.
    pub(super) fn may_take(&self, purpose: Purpose, most: usize) -> bool {
        let [reads, writes] = self.held;
        let writer_waits = writes == 0 && self.waiting[Purpose::Write as usize] > 0;
        reads + writes < most
            && match purpose {
                _ if most < 2 => true,
                Purpose::Write => writes < most - 1,
                Purpose::Read => reads < most - usize::from(writer_waits),
            }
    }

    pub(super) fn take(&mut self, purpose: Purpose) {
        self.held[purpose as usize] += 1;
    }

    pub(super) fn give_back(&mut self, purpose: Purpose) {
        self.held[purpose as usize] -= 1;
    }

    /// The purposes for which calls wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Purpose> + use<> {
        let waiting = self.waiting;
        [Purpose::Read, Purpose::Write].into_iter().filter(move |of| waiting[*of as usize] > 0)
    }

    pub(super) fn begin_waiting(&mut self, purpose: Purpose) {
        self.waiting[purpose as usize] += 1;
    }

    pub(super) fn end_waiting(&mut self, purpose: Purpose) {
        self.waiting[purpose as usize] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Purpose::{Read, Write};
    use super::*;

    /// Whether a read and a write may take a lane.
    fn check(most: usize, held: [usize; 2], waiting: [usize; 2], expected: [bool; 2]) {
        let shares = Shares { held, waiting };
        let found = [Read, Write].map(|purpose| shares.may_take(purpose, most));
        assert_eq!(found, expected, "{most} lanes, {shares:?}");
    }

    #[test]
    fn one_lane_is_left_to_the_other_kind() {
        check(4, [0, 0], [0, 0], [true, true]);
        check(4, [0, 3], [0, 9], [true, false]);
        check(4, [3, 0], [0, 0], [true, true]);
        check(4, [3, 0], [5, 1], [false, true]);
        check(4, [2, 1], [5, 1], [true, true]);
        check(4, [3, 1], [0, 0], [false, false]);
        check(4, [4, 0], [0, 1], [false, false]);
        check(2, [0, 1], [0, 1], [true, false]);
        check(2, [1, 0], [1, 1], [false, true]);
    }

    #[test]
    fn a_single_lane_goes_to_whoever_comes() {
        check(1, [0, 0], [3, 3], [true, true]);
        check(1, [1, 0], [0, 1], [false, false]);
        check(1, [0, 1], [1, 0], [false, false]);
    }
}
