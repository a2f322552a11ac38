//! Random requests of dummy clients, and replies to them.

use mooncake_types::{
    DummyFragments, DummyObject, DummyPut, DummyReply, DummyRequest, Piece, PutMode,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::strategy::{config, error, exist_options, number, result, status, text};
use crate::strategy_reply::{located, with_segments};

pub(crate) fn request() -> impl Strategy<Value = DummyRequest<'static>> {
    let keys = || vec(text(), 0..9);
    let put = (object(), prop_oneof![Just(""), text()]).prop_map(|(object, group)| DummyPut {
        object,
        group,
        session: group,
    });
    let fragments = (text(), vec((number(), piece()), 0..4))
        .prop_map(|(key, fragments)| DummyFragments { key, fragments });
    prop_oneof![
        option::of(any::<u128>()).prop_map(|attachment| DummyRequest::Attach { attachment }),
        number().prop_map(|len| DummyRequest::ShareMemory { len }),
        any::<u32>().prop_map(|map| DummyRequest::UnshareMemory { map }),
        Just(DummyRequest::Health),
        (select(&[PutMode::Insert, PutMode::Upsert]), config(), vec(put, 0..6))
            .prop_map(|(mode, config, puts)| DummyRequest::Put { mode, config, puts }),
        vec(object(), 0..6).prop_map(|objects| DummyRequest::Get { objects }),
        vec(fragments, 0..6).prop_map(|objects| DummyRequest::GetFragments { objects }),
        (keys(), exist_options()).prop_map(|(keys, options)| DummyRequest::Exist { keys, options }),
        (keys(), any::<u32>())
            .prop_map(|(keys, leased_from)| DummyRequest::PrefixLen { keys, leased_from }),
        (any::<bool>(), keys()).prop_map(|(to_get, keys)| DummyRequest::Locate { to_get, keys }),
        (keys(), any::<bool>()).prop_map(|(keys, force)| DummyRequest::Remove { keys, force }),
        (option::of(text()), any::<bool>())
            .prop_map(|(pattern, force)| DummyRequest::RemoveMatching { pattern, force }),
        text().prop_map(|pattern| DummyRequest::List { pattern }),
        (keys(), text()).prop_map(|(keys, segment)| DummyRequest::ClearReplicas { keys, segment }),
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    (any::<u32>(), number(), number()).prop_map(|(map, offset, len)| Piece { map, offset, len })
}

fn object() -> impl Strategy<Value = DummyObject<'static>> {
    (text(), vec(piece(), 0..4)).prop_map(|(key, pieces)| DummyObject { key, pieces })
}

pub(crate) fn reply() -> impl Strategy<Value = DummyReply> {
    prop_oneof![
        (any::<u128>(), ".{0,40}")
            .prop_map(|(attachment, hostname)| DummyReply::Attached { attachment, hostname }),
        any::<u32>().prop_map(|map| DummyReply::MemoryShared { map }),
        vec(status(), 0..9).prop_map(DummyReply::Statuses),
        any::<bool>().prop_map(DummyReply::Health),
        vec(result(number()), 0..9).prop_map(DummyReply::Lengths),
        vec(result(any::<bool>()), 0..9).prop_map(DummyReply::Exist),
        any::<u32>().prop_map(DummyReply::PrefixLen),
        with_segments(|placements| vec(result(located(placements)), 0..6))
            .prop_map(|(results, segments)| DummyReply::Located { results, segments }),
        number().prop_map(DummyReply::Removed),
        with_segments(|placements| vec((".{0,40}", located(placements)), 0..6))
            .prop_map(|(objects, segments)| DummyReply::Listed { objects, segments }),
        error().prop_map(DummyReply::Refused),
    ]
}
