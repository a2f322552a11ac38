//! The hot cache of a process: what was read from other machines and is read again.

use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{RangeRead, limits};

use crate::desk::Desk;
use crate::extents::Piece;
use crate::message::Message;
use crate::moves::What;

/// Few, so that copies go.
const MOST_COPIES: usize = 24;

#[derive(Default)]
pub(crate) struct HotCache {
    /// The oldest first.
    copies: Vec<Copy>,
}

struct Copy {
    range: RangeRead,
    pieces: Vec<Piece>,
    /// Until when its node promised to hold it.
    promised_us: u64,
    /// When the node was asked for a promise, if it has not answered.
    asked_us: Option<u64>,
}

/// How a range is read.
pub(crate) enum Reading {
    /// Nothing is asked.
    Done,
    Ask(Message),
}

impl HotCache {
    /// Takes the bytes of a read from here, if they are here. The node is asked unless it promised to hold them: now and
    /// then for a promise.
    pub(crate) fn begin(
        &mut self,
        what: &mut What,
        now_us: u64,
        desk: &mut Desk,
    ) -> Option<Reading> {
        let What::Read { fetch, pieces } = what else { return None };
        let copy = self.copies.iter_mut().find(|copy| copy.range == fetch.range)?;
        pieces.clone_from(&copy.pieces);
        desk.meet("read a copy of a hot cache", 1);
        let is_promised = now_us < copy.promised_us;
        if is_promised {
            desk.meet("read a copy that was promised", 1);
        }
        if is_broken(Rule::CopiesAreAskedFor) || is_promised {
            return Some(Reading::Done);
        }
        Some(Reading::Ask(match desk.chance.below(2) {
            0 => Message::Read(fetch.range.question()),
            _ => {
                copy.asked_us.get_or_insert(now_us);
                Message::Promise(fetch.range)
            }
        }))
    }

    /// A node answered whether it promises a range. It did so after it was first asked.
    pub(crate) fn on_promised(&mut self, range: &RangeRead, is_promised: bool) {
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.range == *range) else { return };
        if let (Some(asked_us), true) = (copy.asked_us.take(), is_promised) {
            copy.promised_us = copy.promised_us.max(asked_us + limits::PROMISE_MS * 1_000);
        }
    }

    /// Keeps what was read.
    pub(crate) fn keep(&mut self, range: RangeRead, pieces: Vec<Piece>) {
        self.copies.retain(|copy| copy.range != range);
        if self.copies.len() == MOST_COPIES {
            self.copies.remove(0);
        }
        self.copies.push(Copy { range, pieces, promised_us: 0, asked_us: None });
    }
}
