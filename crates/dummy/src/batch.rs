//! Many items, in calls of bounded size.

use mooncake_client::Passing;
use mooncake_types::limits::{MAX_BATCH_KEYS, MAX_DUMMY_PIECES};
use mooncake_types::{DummyReply, DummyRequest, ErrorCode};

use super::host_link::CallFailure;
use super::stage::{NoPlace, Stage};

/// What a host process that answers nonsense is taken for.
pub(super) const NONSENSE: ErrorCode = ErrorCode::RpcFail;

/// Bytes of keys and pieces that one call may name; far below what a frame may have.
const MAX_CALL_BYTES: usize = 8 << 20;

/// What one item takes in a frame besides its key, and each of its pieces, in bytes: no less.
const ITEM_BYTES: usize = 16;
const PIECE_BYTES: usize = 32;

/// Items that go into one call.
pub(super) struct Batch<'p, R> {
    /// Their places in the caller's list.
    pub(super) positions: Vec<usize>,
    /// What the call says of each.
    pub(super) requests: Vec<R>,
    pub(super) passing: Vec<Option<Passing<'p>>>,
}

/// One item whose bytes have a place.
pub(super) struct Staged<'p, R> {
    pub(super) request: R,
    /// Bytes of its names.
    pub(super) name_bytes: usize,
    pub(super) pieces: usize,
    /// The range that its bytes pass through, unless they are in place.
    pub(super) passing: Option<Passing<'p>>,
}

/// Takes items from `next` up to `count` for as long as one call has room for them. `stage` places an item; it is told
/// whether no item before it holds a range of the pool. `refuse` is shown items that never have a place.
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
            Err(NoPlace::Yet) => break,
            Err(NoPlace::Ever(code)) => refuse(*next, code),
        }
        *next += 1;
    }
    batch
}

impl<R> Batch<'_, R> {
    /// Makes the call; gives its `count` answers. Ranges that the host may go on using are never given back.
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
        let answer = stage.link.call(stage.attachment, &request);
        if answer == Err(CallFailure::Unknown) {
            self.passing.iter_mut().filter_map(Option::take).for_each(Passing::forsake);
        }
        by_position(answer.map_err(|failure| failure.code()), count, read)
    }
}

/// The `count` answers that `read` finds in the answer to a call.
pub(super) fn by_position<T: Clone>(
    answer: Result<DummyReply, ErrorCode>,
    count: usize,
    read: impl FnOnce(DummyReply) -> Option<Vec<Result<T, ErrorCode>>>,
) -> Vec<Result<T, ErrorCode>> {
    match answer.map(read) {
        Ok(Some(answers)) if answers.len() == count => answers,
        Ok(_) => vec![Err(NONSENSE); count],
        Err(code) => vec![Err(code); count],
    }
}

/// What one call has room for.
pub(super) struct CallRoom {
    items: usize,
    pieces: usize,
    bytes: usize,
}

impl CallRoom {
    pub(super) fn new() -> Self {
        Self { items: MAX_BATCH_KEYS, pieces: MAX_DUMMY_PIECES, bytes: MAX_CALL_BYTES }
    }

    /// Takes room for an item; false, and nothing taken, if there is none. An empty call takes any one item.
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
