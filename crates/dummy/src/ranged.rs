use mooncake_memory::SliceList;
use mooncake_types::limits::MAX_DUMMY_PIECES;
use mooncake_types::{DummyFragments, DummyRequest, ErrorCode, Piece};

use super::batch::{Batch, INVALID_REPLY, Staged, gather};
use super::get::lengths;
use super::put::check_key;
use super::stage::{NoPlace, Stage, copy_out};
use super::store::DummyStore;
use mooncake_client::{CallRange, Fragment, Ranged};

/// The results of the fragments of each item.
type Results = Vec<Vec<Result<u64, ErrorCode>>>;

impl DummyStore {
    /// Gets parts of objects into the callers' memory, as [`mooncake_client::Store::get_ranges`]. The fragments of
    /// one item pass through the pool together, unless all of them are in shared memory. An item whose fragments are
    /// longer than the pool fails with [`ErrorCode::InvalidParams`].
    pub fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Vec<Result<u64, ErrorCode>>> {
        let all = |item: &Ranged<'_>, code| vec![Err(code); item.fragments.len()];
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return items.iter().map(|item| all(item, code)).collect(),
        };
        let stage = self.stage(&attachment);
        let mut results: Results = items.iter().map(|item| all(item, INVALID_REPLY)).collect();
        let mut next = 0;
        while next < items.len() {
            let place = |at: usize, is_alone| place(&stage, &items[at], is_alone);
            let refuse = |at: usize, code| results[at].fill(Err(code));
            let batch = gather(&mut next, items.len(), place, refuse);
            send(&stage, batch, items, &mut results);
        }
        results
    }
}

fn send<'k>(
    stage: &Stage<'_>,
    mut batch: Batch<'_, DummyFragments<'k>>,
    items: &[Ranged<'k>],
    results: &mut Results,
) {
    let count = batch.positions.iter().map(|&at| results[at].len()).sum();
    let request = |objects| DummyRequest::GetFragments { objects };
    let answers = batch.send(stage, count, request, lengths);
    let mut answers = &answers[..];
    for (&at, passing) in batch.positions.iter().zip(&batch.passing) {
        let (of_item, rest) = answers.split_at(results[at].len());
        results[at] = delivered(&items[at], of_item, passing.as_ref());
        answers = rest;
    }
}

/// Copies fragments from the pool to the caller's memory.
fn delivered(
    item: &Ranged<'_>,
    answered: &[Result<u64, ErrorCode>],
    passing: Option<&CallRange<'_>>,
) -> Vec<Result<u64, ErrorCode>> {
    let Some(passing) = passing else { return answered.to_vec() };
    let mut from = 0;
    let deliver = |(fragment, result): (&Fragment, &Result<u64, ErrorCode>)| {
        let bytes = passing.slice().sub(from, fragment.slice.len());
        from += bytes.len();
        let len = (*result)?;
        copy_out(bytes, &fragment.slice.into()).map(|()| len)
    };
    item.fragments.iter().zip(answered).map(deliver).collect()
}

/// Places the fragments of an item in shared memory.
fn place<'k, 'p>(
    stage: &Stage<'p>,
    item: &Ranged<'k>,
    is_alone: bool,
) -> Result<Staged<'p, DummyFragments<'k>>, NoPlace> {
    check_key(item.key).map_err(NoPlace::Never)?;
    let staged = |fragments: Vec<(u64, Piece)>, passing| {
        let (key, pieces) = (item.key, fragments.len());
        let request = DummyFragments { key, fragments };
        Staged { request, name_bytes: key.len(), pieces, passing }
    };
    let invalid = NoPlace::Never(ErrorCode::InvalidParams);
    if item.fragments.len() > MAX_DUMMY_PIECES {
        return Err(invalid);
    }
    let mut in_place = Vec::with_capacity(item.fragments.len());
    for fragment in &item.fragments {
        let Some(piece) = stage.piece(fragment.slice).map_err(NoPlace::Never)? else { break };
        in_place.push((fragment.object_offset, piece));
    }
    if in_place.len() == item.fragments.len() {
        return Ok(staged(in_place, None));
    }
    let slices: SliceList = item.fragments.iter().map(|fragment| fragment.slice).collect();
    let placed = stage.pass(slices.total_len(), is_alone)?;
    let Some(whole) = placed.pieces.first() else { return Err(invalid) };
    let mut offset = whole.offset;
    let cut = item.fragments.iter().map(|fragment| {
        let len = fragment.slice.len() as u64;
        let piece = Piece { offset, len, ..*whole };
        offset += len;
        (fragment.object_offset, piece)
    });
    Ok(staged(cut.collect(), placed.passing))
}
