//! What a host process does for a dummy.

use std::os::fd::OwnedFd;

use mooncake_types::{ErrorCode, ReplicateConfig};

use super::answer::Answer;
use super::attached_dummy::{Guest, Maps};
use super::protocol::{Call, Item, Malformed, RangedItem};
use crate::store::{Fragment, Ranged};
use crate::{GetTarget, Health, PutSource, Store};

/// Does what a guest asks for, on this thread.
pub(super) fn answer(
    store: &Store,
    guest: &Guest,
    call: &Call<'_>,
    descriptor: Option<OwnedFd>,
) -> Result<Answer, Malformed> {
    if descriptor.is_some() != matches!(call, Call::Share { .. }) {
        return Err(Malformed("a descriptor is missing, or came unasked"));
    }
    // Held until the call is done, so that its memory stays mapped.
    let maps = guest.maps();
    Ok(match call {
        Call::Hello { .. } => return Err(Malformed("a second hello")),
        Call::Share { len } => Answer::Shared(match descriptor {
            Some(memory) => guest.share(memory, *len),
            None => Err(ErrorCode::InvalidParams),
        }),
        Call::Unshare { map } => Answer::Statuses(vec![guest.unshare(*map)]),
        Call::Health => Answer::Health(store.health() == Health::Ok),
        Call::Put { upsert, config, items } => put(store, &maps, *upsert, config, items)?,
        Call::GetInto { items } => get_into(store, &maps, items)?,
        Call::GetRanges { items } => get_ranges(store, &maps, items)?,
        Call::Exist { keys } => Answer::Exist(store.exist(keys)),
        Call::Locate { to_get: false, keys } => Answer::Located(store.locate(keys)),
        Call::Locate { to_get: true, keys } => Answer::Located(store.locate_to_get(keys)),
        Call::Remove { keys, force } => Answer::Statuses(store.remove(keys, *force)),
        Call::RemoveScan { pattern: Some(pattern), force } => {
            Answer::Count(store.remove_by_regex(pattern, *force))
        }
        Call::RemoveScan { pattern: None, force } => Answer::Count(store.remove_all(*force)),
        Call::List { pattern } => Answer::Listed(store.list_by_regex(pattern)),
        Call::Clear { keys, segment } => Answer::Statuses(store.clear_replicas(keys, segment)),
    })
}

fn put(
    store: &Store,
    maps: &Maps,
    upsert: bool,
    config: &ReplicateConfig<'_>,
    items: &[Item<'_>],
) -> Result<Answer, Malformed> {
    let mut sources = Vec::with_capacity(items.len());
    for Item { key, group, pieces } in items {
        sources.push(PutSource { key, src: maps.list(pieces)?, group });
    }
    Ok(Answer::Statuses(match upsert {
        true => store.upsert(&sources, config),
        false => store.put(&sources, config),
    }))
}

fn get_into(store: &Store, maps: &Maps, items: &[Item<'_>]) -> Result<Answer, Malformed> {
    let mut targets = Vec::with_capacity(items.len());
    for Item { key, pieces, .. } in items {
        targets.push(GetTarget { key, dst: maps.list(pieces)? });
    }
    Ok(Answer::Lengths(store.get_into(&targets)))
}

fn get_ranges(store: &Store, maps: &Maps, items: &[RangedItem<'_>]) -> Result<Answer, Malformed> {
    let mut ranged = Vec::with_capacity(items.len());
    for RangedItem { key, fragments } in items {
        let fragment = |&(object_offset, ref piece): &(u64, _)| {
            Ok(Fragment { object_offset, slice: maps.slice(piece)? })
        };
        let fragments = fragments.iter().map(fragment).collect::<Result<Vec<_>, Malformed>>()?;
        ranged.push(Ranged { key, fragments });
    }
    Ok(Answer::Ranges(store.get_ranges(&ranged)))
}
