use std::sync::Arc;

use mooncake_memory::SliceList;
use mooncake_types::limits::MAX_DUMMY_PIECES;
use mooncake_types::{DummyFragments, DummyReply, DummyRequest, ErrorCode, Piece};

use super::DummyStore;
use super::host_link::Attachment;
use super::put::{NONSENSE, check_key, settle};
use super::stage::{NoPlace, Room, Stage, copy_out};
use mooncake_client::{Fragment, Passing, Ranged};

/// By item, the results of its fragments.
type Results = Vec<Vec<Result<u64, ErrorCode>>>;

/// Where the fragments of one item are for the length of a call.
type Places<'p> = (Vec<(u64, Piece)>, Option<Passing<'p>>);

/// Items that go into one call.
#[derive(Default)]
struct Batch<'k, 'p> {
    positions: Vec<usize>,
    objects: Vec<DummyFragments<'k>>,
    passing: Vec<Option<Passing<'p>>>,
}

impl DummyStore {
    /// Gets parts of objects into the callers' memory, as [`mooncake_client::Store::get_ranges`]. The fragments of one item pass
    /// through the pool together, unless all of them are in shared memory; items whose fragments are longer than the
    /// pool are [`ErrorCode::InvalidParams`].
    pub fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Vec<Result<u64, ErrorCode>>> {
        let all = |item: &Ranged<'_>, code| vec![Err(code); item.fragments.len()];
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return items.iter().map(|item| all(item, code)).collect(),
        };
        let mut results: Results = items.iter().map(|item| all(item, NONSENSE)).collect();
        let mut next = 0;
        while next < items.len() {
            let batch = gather(&self.stage(&attachment), items, &mut next, &mut results);
            self.send_ranges(&attachment, batch, items, &mut results);
        }
        results
    }

    fn send_ranges(
        &self,
        attachment: &Arc<Attachment>,
        batch: Batch<'_, '_>,
        items: &[Ranged<'_>],
        results: &mut Results,
    ) {
        let Batch { positions, objects, passing } = batch;
        let count = positions.iter().map(|&at| results[at].len()).sum::<usize>();
        if positions.is_empty() {
            return;
        }
        let answer = self.link.call(attachment, &DummyRequest::GetFragments { objects });
        match &answer {
            Ok(DummyReply::Lengths(answered)) if answered.len() == count => {
                let mut answered = &answered[..];
                for (&at, passing) in positions.iter().zip(&passing) {
                    let (of_item, rest) = answered.split_at(results[at].len());
                    results[at] = delivered(&items[at], of_item, passing.as_ref());
                    answered = rest;
                }
            }
            Ok(_) => {}
            Err(failure) => {
                positions.iter().for_each(|&at| results[at].fill(Err(failure.code())));
            }
        }
        settle(answer.as_ref().err(), passing.into_iter().flatten());
    }
}

/// Brings the fragments that were found from the pool to where they belong.
fn delivered(
    item: &Ranged<'_>,
    answered: &[Result<u64, ErrorCode>],
    passing: Option<&Passing<'_>>,
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

fn gather<'k, 'p>(
    stage: &Stage<'p>,
    items: &[Ranged<'k>],
    next: &mut usize,
    results: &mut Results,
) -> Batch<'k, 'p> {
    let (mut batch, mut room) = (Batch::default(), Room::new());
    let mut passing = 0;
    while let Some(item) = items.get(*next) {
        match place(stage, item, passing == 0) {
            Ok((fragments, through)) => {
                if !room.take(item.key.len(), fragments.len()) {
                    break;
                }
                passing += usize::from(through.is_some());
                batch.positions.push(*next);
                batch.objects.push(DummyFragments { key: item.key, fragments });
                batch.passing.push(through);
            }
            Err(NoPlace::Yet) => break,
            Err(NoPlace::Ever(code)) => results[*next].fill(Err(code)),
        }
        *next += 1;
    }
    batch
}

/// Where the fragments of an item are in shared memory.
fn place<'p>(stage: &Stage<'p>, item: &Ranged<'_>, alone: bool) -> Result<Places<'p>, NoPlace> {
    check_key(item.key).map_err(NoPlace::Ever)?;
    let invalid = NoPlace::Ever(ErrorCode::InvalidParams);
    if item.fragments.len() > MAX_DUMMY_PIECES {
        return Err(invalid);
    }
    let mut in_place = Vec::with_capacity(item.fragments.len());
    for fragment in &item.fragments {
        let Some(piece) = stage.piece(fragment.slice).map_err(NoPlace::Ever)? else { break };
        in_place.push((fragment.object_offset, piece));
    }
    if in_place.len() == item.fragments.len() {
        return Ok((in_place, None));
    }
    let slices: SliceList = item.fragments.iter().map(|fragment| fragment.slice).collect();
    let placed = stage.pass(slices.total_len(), alone)?;
    let Some(whole) = placed.pieces.first() else { return Err(invalid) };
    let mut offset = whole.offset;
    let cut = item.fragments.iter().map(|fragment| {
        let len = fragment.slice.len() as u64;
        let piece = Piece { offset, len, ..*whole };
        offset += len;
        (fragment.object_offset, piece)
    });
    Ok((cut.collect(), placed.passing))
}
