//! The hot cache of a process: copies of ranges that it read on other hosts.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{RangeRead, limits};

use crate::extents::Piece;
use crate::message::Message;
use crate::moves::MoveKind;
use crate::run_state::RunState;

/// Small, so that copies are replaced.
const MOST_COPIES: usize = 24;

#[derive(Default)]
pub(crate) struct HotCache {
    /// Ordered by age, the oldest first.
    copies: Vec<Copy>,
}

struct Copy {
    range: RangeRead,
    pieces: Vec<Piece>,
    /// The node promised to keep the range until this moment.
    promised_us: u64,
    /// When the process asked the node for a promise; `None` if no question is open.
    asked_us: Option<u64>,
}

/// How a read of a cached range goes on.
pub(crate) enum Reading {
    /// The copy may be used without a question.
    Done,
    Ask(Message),
}

impl HotCache {
    /// Serves a read from a copy, if there is one. Unless the node's promise still holds, the process asks the node:
    /// whether it still holds the range, or for a promise.
    pub(crate) fn begin(
        &mut self,
        what: &mut MoveKind,
        now_us: u64,
        run_state: &mut RunState,
    ) -> Option<Reading> {
        let MoveKind::Read { fetch, pieces } = what else { return None };
        let copy = self.copies.iter_mut().find(|copy| copy.range == fetch.range)?;
        pieces.clone_from(&copy.pieces);
        run_state.meet("read a copy of a hot cache", 1);
        let is_promised = now_us < copy.promised_us;
        if is_promised {
            run_state.meet("read a copy that was promised", 1);
        }
        if is_broken(Rule::CopiesAreAskedFor) || is_promised {
            return Some(Reading::Done);
        }
        Some(Reading::Ask(match run_state.chance.below(2) {
            0 => Message::Read(fetch.range.question()),
            _ => {
                copy.asked_us.get_or_insert(now_us);
                Message::Promise(fetch.range)
            }
        }))
    }

    /// Notes the node's answer to a request for a promise. The promise counts from the moment of the first question.
    pub(crate) fn on_promised(&mut self, range: &RangeRead, is_promised: bool) {
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.range == *range) else { return };
        if let (Some(asked_us), true) = (copy.asked_us.take(), is_promised) {
            copy.promised_us = copy.promised_us.max(asked_us + limits::PROMISE_MS * 1_000);
        }
    }

    /// Keeps a copy of a range that was read.
    pub(crate) fn keep(&mut self, range: RangeRead, pieces: Vec<Piece>) {
        self.copies.retain(|copy| copy.range != range);
        if self.copies.len() == MOST_COPIES {
            self.copies.remove(0);
        }
        self.copies.push(Copy { range, pieces, promised_us: 0, asked_us: None });
    }
}
