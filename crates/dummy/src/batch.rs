//! Splits many items into calls of bounded size.

use mooncake_client::CallRange;
use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_DUMMY_PIECES};
use mooncake_types::{DummyReply, DummyRequest, ErrorCode};

use super::stage::{NoPlace, Stage};

/// The error for a host process that answers nonsense.
pub(super) const INVALID_REPLY: ErrorCode = ErrorCode::RpcFail;

/// Most bytes of keys and pieces that one call names; far below the limit of a frame.
const MAX_CALL_BYTES: usize = 8 << 20;

/// Upper bounds, in bytes: for one item in a frame besides its key, and for each of its pieces.
const ITEM_BYTES: usize = 16;
const PIECE_BYTES: usize = 32;

/// The items of one call.
pub(super) struct Batch<'p, R> {
    /// Their positions in the caller's list.
    pub(super) positions: Vec<usize>,
    /// The part of the request for each item.
    pub(super) requests: Vec<R>,
    /// The range of the pool through which each item passes, unless it is in place.
    pub(super) passing: Vec<Option<CallRange<'p>>>,
}

/// One item whose bytes have a place in shared memory.
pub(super) struct Staged<'p, R> {
    pub(super) request: R,
    /// Bytes of its key, group and session.
    pub(super) name_bytes: usize,
    pub(super) pieces: usize,
    /// The range of the pool through which its bytes pass, unless they are in place.
    pub(super) passing: Option<CallRange<'p>>,
}

/// Takes items from `next` up to `count`, while one call has room for them. `stage` places an item; its flag says
/// whether no item before it holds a range of the pool. `refuse` gets the items that never have a place.
pub(super) fn gather<'p, R>(
    next: &mut usize,
    count: usize,
    mut stage: impl FnMut(usize, bool) -> Result<Staged<'p, R>, NoPlace>,
    mut refuse: impl FnMut(usize, ErrorCode),
) -> Batch<'p, R> {
    let mut batch = Batch { positions: Vec::new(), requests: Vec::new(), passing: Vec::new() };
    let (mut room, mut is_alone) = (CallRoom::new(), true);
    while *next < count {
        match stage(*next, is_alone) {
            Ok(Staged { request, name_bytes, pieces, passing }) => {
                if !room.take(name_bytes, pieces) {
                    break;
                }
                is_alone &= passing.is_none();
                batch.positions.push(*next);
                batch.requests.push(request);
                batch.passing.push(passing);
            }
            Err(NoPlace::NotNow) => break,
            Err(NoPlace::Never(code)) => refuse(*next, code),
        }
        *next += 1;
    }
    batch
}

impl<R> Batch<'_, R> {
    /// Makes the call, and returns its `count` answers. Ranges that the host may go on using are given back once it has
    /// answered.
    pub(super) fn send<'k, T: Clone>(
        &mut self,
        stage: &Stage<'_>,
        count: usize,
        call: impl FnOnce(Vec<R>) -> DummyRequest<'k>,
        read: impl FnOnce(DummyReply) -> Option<Vec<Result<T, ErrorCode>>>,
    ) -> Vec<Result<T, ErrorCode>> {
        if self.positions.is_empty() {
            return Vec::new();
        }
        let request = call(std::mem::take(&mut self.requests));
        let passing = self.passing.iter_mut().filter_map(Option::take);
        let set_aside = || passing.map(CallRange::set_aside).collect();
        let answer = stage.link.call_passing(stage.attachment, &request, set_aside);
        by_position(answer.map_err(|failure| failure.code()), count, read)
    }
}

/// The `count` answers that `read` finds in the reply to a call, or one error for all of them.
pub(super) fn by_position<T: Clone>(
    answer: Result<DummyReply, ErrorCode>,
    count: usize,
    read: impl FnOnce(DummyReply) -> Option<Vec<Result<T, ErrorCode>>>,
) -> Vec<Result<T, ErrorCode>> {
    match answer.map(read) {
        Ok(Some(answers)) if answers.len() == count => answers,
        Ok(_) => vec![Err(INVALID_REPLY); count],
        Err(code) => vec![Err(code); count],
    }
}

/// The room that is left in one call.
pub(super) struct CallRoom {
    items: usize,
    pieces: usize,
    bytes: usize,
}

impl CallRoom {
    pub(super) fn new() -> Self {
        Self { items: MAX_BATCH_KEYS, pieces: MAX_DUMMY_PIECES, bytes: MAX_CALL_BYTES }
    }

    /// Takes room for an item. False if there is none, and then nothing is taken. An empty call takes any single
    /// item.
    pub(super) fn take(&mut self, name_bytes: usize, pieces: usize) -> bool {
        let bytes = ITEM_BYTES + name_bytes + pieces * PIECE_BYTES;
        let is_empty = self.items == MAX_BATCH_KEYS;
        let fits = self.items > 0 && self.pieces >= pieces && self.bytes >= bytes;
        if !fits && !is_empty {
            return false;
        }
        self.items -= 1;
        self.pieces = self.pieces.saturating_sub(pieces);
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}
