use std::sync::Arc;

use mooncake_types::{
    DummyObject, DummyPut, DummyReply, DummyRequest, ErrorCode, PutMode, ReplicateConfig, limits,
};

use super::DummyStore;
use super::host_link::{Attachment, CallFailure};
use super::stage::{NoPlace, Room, Stage};
use mooncake_client::{Passing, PutSource};

/// What a host process that answers nonsense is taken for.
pub(super) const NONSENSE: ErrorCode = ErrorCode::RpcFail;

/// Longest list of names of preferred segments.
const MAX_PREFERRED: usize = 1024;

/// Objects that go into one call.
#[derive(Default)]
struct Batch<'k, 'p> {
    positions: Vec<usize>,
    puts: Vec<DummyPut<'k>>,
    passing: Vec<Passing<'p>>,
}

impl DummyStore {
    /// Puts objects, as [`mooncake_client::Store::put`]. Items that do not fit into the pool together go one after the other; one
    /// that alone is longer than the pool is [`ErrorCode::InvalidParams`].
    pub fn put(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        self.put_all(items, config, PutMode::Insert)
    }

    /// As [`mooncake_client::Store::upsert`], in the way of [`DummyStore::put`].
    pub fn upsert(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        self.put_all(items, config, PutMode::Upsert)
    }

    fn put_all(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
        mode: PutMode,
    ) -> Vec<Result<(), ErrorCode>> {
        if !fits_a_frame(config) {
            return vec![Err(ErrorCode::InvalidParams); items.len()];
        }
        let mut results = vec![Err(NONSENSE); items.len()];
        let mut next = 0;
        while next < items.len() {
            // Anew for each call: the host may be another by then.
            let attachment = match self.attachment() {
                Ok(attachment) => attachment,
                Err(code) => {
                    results[next..].fill(Err(code));
                    break;
                }
            };
            let batch = gather(&self.stage(&attachment), items, &mut next, &mut results);
            self.send_puts(&attachment, batch, config, mode, &mut results);
        }
        results
    }

    fn send_puts(
        &self,
        attachment: &Arc<Attachment>,
        batch: Batch<'_, '_>,
        config: &ReplicateConfig<'_>,
        mode: PutMode,
        results: &mut [Result<(), ErrorCode>],
    ) {
        let Batch { positions, puts, passing } = batch;
        if positions.is_empty() {
            return;
        }
        let request = DummyRequest::Put { mode, config: config.clone(), puts };
        let answer = self.link.call(attachment, &request);
        settle(answer.as_ref().err(), passing);
        let answered = match answer {
            Ok(DummyReply::Statuses(answered)) if answered.len() == positions.len() => answered,
            Ok(_) => vec![Err(NONSENSE); positions.len()],
            Err(failure) => vec![Err(failure.code()); positions.len()],
        };
        for (position, result) in positions.into_iter().zip(answered) {
            results[position] = result;
        }
    }
}

/// Takes items from `next` on for as long as they have room together, and answers those that never will.
fn gather<'k, 'p>(
    stage: &Stage<'p>,
    items: &[PutSource<'k>],
    next: &mut usize,
    results: &mut [Result<(), ErrorCode>],
) -> Batch<'k, 'p> {
    let (mut batch, mut room) = (Batch::default(), Room::new());
    while let Some(item) = items.get(*next) {
        let placed = check_names(item).map_err(NoPlace::Ever);
        match placed.and_then(|()| stage.put(&item.src, batch.passing.is_empty())) {
            Ok(placed) => {
                if !room.take(item.key.len() + item.group.len(), placed.pieces.len()) {
                    break;
                }
                let PutSource { key, group, .. } = *item;
                batch.positions.push(*next);
                let object = DummyObject { key, pieces: placed.pieces };
                batch.puts.push(DummyPut { object, group });
                batch.passing.extend(placed.passing);
            }
            Err(NoPlace::Yet) => break,
            Err(NoPlace::Ever(code)) => results[*next] = Err(code),
        }
        *next += 1;
    }
    batch
}

/// Gives ranges back, unless the host may go on using them.
pub(super) fn settle<'p>(
    failure: Option<&CallFailure>,
    passing: impl IntoIterator<Item = Passing<'p>>,
) {
    let is_unknown = failure == Some(&CallFailure::Unknown);
    passing.into_iter().filter(|_| is_unknown).for_each(Passing::forsake);
}

fn check_names(item: &PutSource<'_>) -> Result<(), ErrorCode> {
    check_key(item.key)?;
    match item.group.len() <= limits::MAX_GROUP_BYTES {
        true => Ok(()),
        false => Err(ErrorCode::InvalidParams),
    }
}

/// A key that a frame has room for; the master says what else is wrong with it.
pub(super) fn check_key(key: &str) -> Result<(), ErrorCode> {
    if key.len() <= limits::MAX_KEY_BYTES { Ok(()) } else { Err(ErrorCode::InvalidKey) }
}

fn fits_a_frame(config: &ReplicateConfig<'_>) -> bool {
    config.preferred_segments.len() <= MAX_PREFERRED
        && config.excluded_segments.len() <= MAX_PREFERRED
        && config.preferred_segments.iter().all(|name| name.len() <= limits::MAX_NAME_BYTES)
}
