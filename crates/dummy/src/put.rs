use mooncake_types::{
    DummyObject, DummyPut, DummyReply, DummyRequest, ErrorCode, PutMode, ReplicateConfig, limits,
};

use super::batch::{NONSENSE, Staged, gather};
use super::stage::{NoPlace, Stage};
use super::store::DummyStore;
use mooncake_client::PutSource;

/// Longest list of names of preferred segments.
const MAX_PREFERRED: usize = 1024;

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
            let stage = self.stage(&attachment);
            let place = |at: usize, is_alone| place(&stage, &items[at], is_alone);
            let refuse = |at: usize, code| results[at] = Err(code);
            let mut batch = gather(&mut next, items.len(), place, refuse);
            let request = |puts| DummyRequest::Put { mode, config: config.clone(), puts };
            let answers = batch.send(&stage, batch.positions.len(), request, statuses);
            for (at, answer) in batch.positions.into_iter().zip(answers) {
                results[at] = answer;
            }
        }
        results
    }
}

fn place<'k, 'p>(
    stage: &Stage<'p>,
    item: &PutSource<'k>,
    is_alone: bool,
) -> Result<Staged<'p, DummyPut<'k>>, NoPlace> {
    check_names(item).map_err(NoPlace::Ever)?;
    let placed = stage.put(&item.src, is_alone)?;
    let PutSource { key, group, .. } = *item;
    let (name_bytes, pieces) = (key.len() + group.len(), placed.pieces.len());
    let object = DummyObject { key, pieces: placed.pieces };
    let request = DummyPut { object, group };
    Ok(Staged { request, name_bytes, pieces, passing: placed.passing })
}

/// The answers to a call that has none but good or bad.
pub(super) fn statuses(answer: DummyReply) -> Option<Vec<Result<(), ErrorCode>>> {
    if let DummyReply::Statuses(results) = answer { Some(results) } else { None }
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
