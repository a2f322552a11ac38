//! Carries out the calls of a dummy, in the host process.

use std::os::fd::OwnedFd;

use mooncake_types::{
    DummyFragments, DummyObject, DummyPut, DummyReply, DummyRequest, ErrorCode, PutMode,
    ReplicateConfig,
};

use super::attached_dummy::{AttachedDummy, SharedRegions};
use super::malformed::Malformed;
use super::segment_table::SegmentTable;
use mooncake_client::{Fragment, GetTarget, Health, ObjectLocation, PutSource, Ranged, Store};

/// Carries out a request, on this thread. `regions` are what the dummy shared when it came.
pub(super) fn answer(
    store: &Store,
    dummy: &AttachedDummy,
    regions: &SharedRegions,
    request: &DummyRequest<'_>,
    memory: Vec<OwnedFd>,
) -> Result<DummyReply, Malformed> {
    if memory.len() != usize::from(matches!(request, DummyRequest::ShareMemory { .. })) {
        return Err(Malformed("a descriptor is missing, or came unasked"));
    }
    Ok(match request {
        DummyRequest::Attach { .. } => return Err(Malformed("it is attached already")),
        DummyRequest::ShareMemory { len } => {
            let shared = memory.into_iter().next().ok_or(ErrorCode::InvalidParams);
            let shared = shared.and_then(|memory| dummy.share(memory, *len));
            shared.map_or_else(DummyReply::Refused, |map| DummyReply::MemoryShared { map })
        }
        DummyRequest::UnshareMemory { map } => DummyReply::Statuses(vec![dummy.unshare(*map)]),
        DummyRequest::Health => DummyReply::Health(store.health() == Health::Ok),
        DummyRequest::Put { mode, config, puts } => put(store, regions, (*mode, config), puts)?,
        DummyRequest::Get { objects } => get(store, regions, objects)?,
        DummyRequest::GetFragments { objects } => get_fragments(store, regions, objects)?,
        DummyRequest::Exist { keys, options } => DummyReply::Exist(match options.prefetch {
            // The limits are those of this process.
            Some(_) => store.exist_prefetching(keys),
            None => store.exist_with(keys, *options),
        }),
        DummyRequest::PrefixLen { keys, leased_from } => {
            let counted = store.prefix_len(keys, *leased_from as usize);
            // The count fits, since a frame bounds the number of keys.
            counted.map_or_else(DummyReply::Refused, |count| DummyReply::PrefixLen(count as u32))
        }
        DummyRequest::Locate { to_get: false, keys } => located(&store.locate(keys)),
        DummyRequest::Locate { to_get: true, keys } => located(&store.locate_to_get(keys)),
        DummyRequest::Remove { keys, force } => DummyReply::Statuses(store.remove(keys, *force)),
        DummyRequest::RemoveMatching { pattern, force } => {
            let removed = match pattern {
                Some(pattern) => store.remove_by_regex(pattern, *force),
                None => store.remove_all(*force),
            };
            removed.map_or_else(DummyReply::Refused, DummyReply::Removed)
        }
        DummyRequest::List { pattern } => {
            store.list_by_regex(pattern).map_or_else(DummyReply::Refused, listed)
        }
        DummyRequest::ClearReplicas { keys, segment } => {
            DummyReply::Statuses(store.clear_replicas(keys, segment))
        }
    })
}

fn put(
    store: &Store,
    regions: &SharedRegions,
    (mode, config): (PutMode, &ReplicateConfig<'_>),
    puts: &[DummyPut<'_>],
) -> Result<DummyReply, Malformed> {
    let mut sources = Vec::with_capacity(puts.len());
    for DummyPut { object, group, session } in puts {
        let src = regions.list(&object.pieces)?;
        sources.push(PutSource { key: object.key, src, group, session });
    }
    Ok(DummyReply::Statuses(match mode {
        PutMode::Insert => store.put(&sources, config),
        PutMode::Upsert => store.upsert(&sources, config),
    }))
}

fn get(
    store: &Store,
    regions: &SharedRegions,
    objects: &[DummyObject<'_>],
) -> Result<DummyReply, Malformed> {
    let mut targets = Vec::with_capacity(objects.len());
    for DummyObject { key, pieces } in objects {
        targets.push(GetTarget { key, dst: regions.list(pieces)? });
    }
    Ok(DummyReply::Lengths(store.get_into(&targets)))
}

fn get_fragments(
    store: &Store,
    regions: &SharedRegions,
    objects: &[DummyFragments<'_>],
) -> Result<DummyReply, Malformed> {
    let mut ranged = Vec::with_capacity(objects.len());
    for DummyFragments { key, fragments } in objects {
        let fragment = |&(object_offset, ref piece): &(u64, _)| {
            Ok(Fragment { object_offset, slice: regions.slice(piece)?.into() })
        };
        let fragments = fragments.iter().map(fragment).collect::<Result<Vec<_>, Malformed>>()?;
        ranged.push(Ranged { key, fragments });
    }
    Ok(DummyReply::Lengths(store.get_ranges(&ranged).into_iter().flatten().collect()))
}

fn located(found: &[Result<ObjectLocation, ErrorCode>]) -> DummyReply {
    let mut table = SegmentTable::default();
    let located = |found: &Result<_, _>| match found {
        Ok(location) => Ok(table.locate(location)),
        Err(code) => Err(*code),
    };
    let results = found.iter().map(located).collect();
    DummyReply::Located { results, segments: table.segments }
}

fn listed(found: Vec<(String, ObjectLocation)>) -> DummyReply {
    let mut table = SegmentTable::default();
    let found = found.into_iter();
    let objects = found.map(|(key, location)| (key, table.locate(&location))).collect();
    DummyReply::Listed { objects, segments: table.segments }
}
