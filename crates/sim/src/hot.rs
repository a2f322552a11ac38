//! The hot cache of a process: what was read from other machines and is read again.

use mooncake_types::RangeRead;
use mooncake_types::mutation::{Rule, is_broken};

use crate::desk::Desk;
use crate::extents::Piece;
use crate::message::Message;
use crate::moves::What;

/// Few, so that copies go.
const MOST_COPIES: usize = 24;

#[derive(Default)]
pub(crate) struct HotCache {
    /// The oldest first.
    copies: Vec<(RangeRead, Vec<Piece>)>,
}

/// How a range is read.
pub(crate) enum Reading {
    /// Nothing is asked.
    Done,
    Ask(Message),
}

impl HotCache {
    /// Takes the bytes of a read from here, if they are here. The node is asked in any case.
    pub(crate) fn begin(&self, what: &mut What, desk: &mut Desk) -> Option<Reading> {
        let What::Read { fetch, pieces } = what else { return None };
        let (_, copy) = self.copies.iter().find(|(range, _)| *range == fetch.range)?;
        pieces.clone_from(copy);
        desk.meet("read a copy of a hot cache", 1);
        Some(match is_broken(Rule::CopiesAreAskedFor) {
            true => Reading::Done,
            false => Reading::Ask(Message::Read(fetch.range.question())),
        })
    }

    /// Keeps what was read.
    pub(crate) fn keep(&mut self, range: RangeRead, pieces: Vec<Piece>) {
        self.copies.retain(|(known, _)| *known != range);
        if self.copies.len() == MOST_COPIES {
            self.copies.remove(0);
        }
        self.copies.push((range, pieces));
    }
}
