use mooncake_types::{
    DummyObject, DummyPut, DummyReply, DummyRequest, ErrorCode, PutMode, ReplicateConfig, limits,
};

use super::batch::{INVALID_REPLY, Staged, gather};
use super::stage::{NoPlace, Stage};
use super::store::DummyStore;
use mooncake_client::PutSource;

/// Most preferred segments, and most excluded ones.
const MAX_NAMED_SEGMENTS: usize = 1024;

impl DummyStore {
    /// Puts objects, as [`mooncake_client::Store::put`]. Items that do not fit into the pool together are put one
    /// after the other. An item that alone is longer than the pool fails with [`ErrorCode::InvalidParams`], unless
    /// its memory is shared.
    pub fn put(
        &self,
        items: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        self.put_all(items, config, PutMode::Insert)
    }

    /// Puts objects as [`DummyStore::put`] does, with the rules of [`mooncake_client::Store::upsert`].
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
        let mut results = vec![Err(INVALID_REPLY); items.len()];
        let mut next = 0;
        while next < items.len() {
            // Ask for the attachment before each call: the host process may be another one by then.
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
    check_names(item).map_err(NoPlace::Never)?;
    let placed = stage.put(&item.src, is_alone)?;
    let PutSource { key, group, session, .. } = *item;
    let name_bytes = key.len() + group.len() + session.len();
    let pieces = placed.pieces.len();
    let object = DummyObject { key, pieces: placed.pieces };
    let request = DummyPut { object, group, session };
    Ok(Staged { request, name_bytes, pieces, passing: placed.passing })
}

/// The statuses in the reply to a call that has no other results.
pub(super) fn statuses(answer: DummyReply) -> Option<Vec<Result<(), ErrorCode>>> {
    if let DummyReply::Statuses(results) = answer { Some(results) } else { None }
}

fn check_names(item: &PutSource<'_>) -> Result<(), ErrorCode> {
    check_key(item.key)?;
    match item.group.len().max(item.session.len()) <= limits::MAX_GROUP_BYTES {
        true => Ok(()),
        false => Err(ErrorCode::InvalidParams),
    }
}

/// Refuses a key for which a frame has no room. The master checks the rest.
pub(super) fn check_key(key: &str) -> Result<(), ErrorCode> {
    if key.len() <= limits::MAX_KEY_BYTES { Ok(()) } else { Err(ErrorCode::InvalidKey) }
}

fn fits_a_frame(config: &ReplicateConfig<'_>) -> bool {
    config.preferred_segments.len() <= MAX_NAMED_SEGMENTS
        && config.excluded_segments.len() <= MAX_NAMED_SEGMENTS
        && config.preferred_segments.iter().all(|name| name.len() <= limits::MAX_NAME_BYTES)
}
