use std::io;
use std::sync::Arc;

use mooncake_client::{
    Buffer, ErrorCode, Fragment, GetTarget, Health, HostMemory, Place, PutSource, Ranged, RawSlice,
    Region, ReplicateConfig, SliceList,
};
use mooncake_dummy::{DummyConfig, DummyError, DummyServer, DummyStore};
use mooncake_types::limits;

use crate::rig::{content, eventually};
use crate::scene::{POOL, Scene, config, get, get_into, put, put_from, server_config};

const MISSING: ErrorCode = ErrorCode::ObjectNotFound;

#[test]
fn a_dummy_puts_finds_gets_and_removes() {
    let scene = Scene::new(64 << 20);
    let (one, other) = (scene.dummy(), scene.dummy());
    assert_eq!((one.health(), one.hostname()), (Health::Ok, scene.store.hostname()));
    for len in [1, 4096, 300_000] {
        let key = format!("{len} bytes");
        assert_eq!(put(&one, &key, len), Ok(()));
        assert_eq!(put(&one, &key, len), Err(ErrorCode::ObjectAlreadyExists));
        for reader in [&one, &other] {
            assert_eq!(get(reader, &key), Ok(content(&key, len)));
            assert_eq!(reader.size(&key), Ok(len as u64));
        }
        assert_eq!(crate::rig::get(&scene.store, &key), Ok(content(&key, len)));
        assert_eq!(other.exist(&[&key, "none"]), [Ok(true), Ok(false)]);
        assert_eq!(other.prefix_len(&[&key, &key, "none", &key], 0), Ok(2));
        let located = scene.store.locate(&[&key, "none"]);
        assert_eq!(other.locate(&[&key, "none"]), located);
        let removed = other.remove(&[&key, "none"], false);
        assert_eq!(removed, [Err(ErrorCode::ObjectHasLease), Err(MISSING)]);
        assert_eq!(other.remove(&[&key], true), [Ok(())]);
        assert_eq!(get(&one, &key), Err(MISSING));
    }
}

#[test]
fn patterns_and_all_work_as_on_a_store() {
    let scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    for key in ["a1", "a2", "b1"] {
        assert_eq!(put(&dummy, key, 100), Ok(()));
    }
    let mut listed = dummy.list_by_regex("^a").expect("it parses");
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    let keys: Vec<&str> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["a1", "a2"]);
    assert_eq!(dummy.remove_by_regex("1$", false), Ok(2));
    for bad in ["(", &"x".repeat(5000)] {
        assert_eq!(dummy.remove_by_regex(bad, false), Err(ErrorCode::InvalidParams));
        assert_eq!(dummy.list_by_regex(bad), Err(ErrorCode::InvalidParams));
    }
    assert_eq!(dummy.remove_all(true), Ok(1));
    assert_eq!(dummy.exist(&["a1", "a2", "b1"]), [Ok(false); 3]);
}

#[test]
fn an_upsert_takes_the_place_of_what_was_there() {
    let scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, "key", 100), Ok(()));
    let newer = Buffer::from_vec(content("newer", 250));
    let item = PutSource::new("key", SliceList::from(newer.raw()));
    assert_eq!(dummy.upsert(&[item], &ReplicateConfig::default()), [Ok(())]);
    assert_eq!(get(&dummy, "key"), Ok(content("newer", 250)));
}

/// Each kind of memory that callers have, filled with `bytes`.
fn memories(dummy: &DummyStore, bytes: &[u8]) -> Vec<(&'static str, usize)> {
    let len = bytes.len();
    let own = Box::leak(bytes.to_vec().into_boxed_slice()).as_mut_ptr().expose_provenance();
    let pool = dummy.alloc_from_mem_pool(len as u64).expect("the pool has room");
    let host = HostMemory::of_process().alloc(len as u64).expect("there is memory");
    vec![("own", own), ("pool", pool), ("host", host)]
}

/// The memory at this address.
fn at(address: usize, len: usize) -> RawSlice<'static> {
    // SAFETY: the tests here name memory that stays allocated until their end, and hold no reference to it.
    unsafe { RawSlice::new(std::ptr::with_exposed_provenance_mut(address), len) }
}

#[test]
fn every_kind_of_memory_is_put_from_and_got_into() {
    let scene = Scene::new(16 << 20);
    let dummy = scene.dummy();
    let len = 70_000;
    for (kind, address) in memories(&dummy, &vec![0; len]) {
        let memory = at(address, len);
        memory.write_from(&content(kind, len));
        assert_eq!(put_from(&dummy, kind, memory), Ok(()), "{kind}");
        assert_eq!(get(&dummy, kind), Ok(content(kind, len)), "{kind}");
        memory.write_from(&vec![0; len]);
        assert_eq!(get_into(&dummy, kind, memory), Ok(len as u64), "{kind}");
        assert_eq!(memory.to_vec(), content(kind, len), "{kind}");
        assert_eq!(get_into(&dummy, kind, memory.sub(0, len - 1)), Err(ErrorCode::InvalidParams));
        assert_eq!(get_into(&dummy, "none", memory), Err(MISSING));
    }
}

#[test]
fn one_object_may_lie_in_memory_of_several_kinds() {
    let scene = Scene::new(16 << 20);
    let dummy = scene.dummy();
    let len = 10_000;
    let kinds = memories(&dummy, &vec![0; len]);
    let slices: Vec<RawSlice> = kinds.iter().map(|&(_, address)| at(address, len)).collect();
    let whole = content("mixed", 3 * len);
    for (slice, bytes) in slices.iter().zip(whole.chunks(len)) {
        slice.write_from(bytes);
    }
    let item = PutSource::new("mixed", SliceList::from(slices.clone()));
    assert_eq!(dummy.put(&[item], &ReplicateConfig::default()), [Ok(())]);
    slices.iter().for_each(|slice| slice.write_from(&vec![0; len]));
    let target = GetTarget { key: "mixed", dst: SliceList::from(slices.clone()) };
    assert_eq!(dummy.get_into(&[target]), [Ok(3 * len as u64)]);
    assert_eq!(slices.iter().flat_map(RawSlice::to_vec).collect::<Vec<_>>(), whole);
}

#[test]
fn parts_of_objects_are_got_into_every_kind_of_memory() {
    let scene = Scene::new(16 << 20);
    let dummy = scene.dummy();
    let bytes = content("key", 1000);
    assert_eq!(put(&dummy, "key", 1000), Ok(()));
    for (kind, address) in memories(&dummy, &[0; 300]) {
        let memory = at(address, 300);
        let fragment = |object_offset, from, len| Fragment {
            object_offset,
            slice: memory.sub(from, len).into(),
        };
        let fragments = vec![fragment(10, 0, 100), fragment(950, 100, 51), fragment(900, 200, 100)];
        let items = [
            Ranged { key: "key", fragments },
            Ranged { key: "none", fragments: vec![fragment(0, 151, 10)] },
            Ranged { key: "key", fragments: vec![] },
        ];
        let results = dummy.get_ranges(&items);
        let found = vec![Ok(100), Err(ErrorCode::InvalidParams), Ok(100)];
        assert_eq!(results, [found, vec![Err(MISSING)], vec![]], "{kind}");
        assert_eq!(memory.sub(0, 100).to_vec(), bytes[10..110], "{kind}");
        assert_eq!(memory.sub(200, 100).to_vec(), bytes[900..], "{kind}");
    }
}

#[test]
fn a_batch_that_is_larger_than_the_pool_goes_in_turns() {
    let scene = Scene::new(64 << 20);
    let dummy = scene.dummy();
    let len = POOL as usize / 3;
    let keys: Vec<String> = (0..10).map(|number| format!("object {number}")).collect();
    let buffers: Vec<Buffer> = keys.iter().map(|key| Buffer::from_vec(content(key, len))).collect();
    let names: Vec<&'static str> =
        keys.iter().map(|key| &*Box::leak(key.clone().into_boxed_str())).collect();
    let mut items: Vec<PutSource<'_>> = names
        .iter()
        .zip(&buffers)
        .map(|(&key, buffer)| PutSource::new(key, SliceList::from(buffer.raw())))
        .collect();
    let huge = Buffer::zeroed(POOL as usize + 1);
    items.insert(3, PutSource::new("huge", SliceList::from(huge.raw())));
    let mut expected = vec![Ok(()); 11];
    expected[3] = Err(ErrorCode::InvalidParams);
    assert_eq!(dummy.put(&items, &ReplicateConfig::default()), expected);

    let got = dummy.get(&names);
    for (key, bytes) in names.iter().zip(got) {
        assert_eq!(bytes.map(Buffer::into_vec), Ok(content(key, len)));
    }
    let room: Vec<Buffer> = names.iter().map(|_| Buffer::zeroed(4 << 20)).collect();
    let targets: Vec<GetTarget<'_>> = names
        .iter()
        .zip(&room)
        .map(|(key, room)| GetTarget { key, dst: SliceList::from(room.raw()) })
        .collect();
    assert_eq!(dummy.get_into(&targets), vec![Ok(len as u64); 10]);
    for (key, room) in names.iter().zip(&room) {
        assert_eq!(room.as_slice()[..len], content(key, len));
    }
}

#[test]
fn many_threads_share_a_small_pool() {
    let scene = Scene::new(64 << 20);
    let dummy = scene.dummy();
    std::thread::scope(|scope| {
        for thread in 0..40 {
            let dummy = &dummy;
            scope.spawn(move || {
                for turn in 0..5 {
                    let (key, len) = (format!("{thread}.{turn}"), POOL as usize / 4);
                    assert_eq!(put(dummy, &key, len), Ok(()));
                    assert_eq!(get(dummy, &key), Ok(content(&key, len)));
                    assert_eq!(dummy.remove(&[&key], true), [Ok(())]);
                }
            });
        }
    });
    assert_eq!(dummy.alloc_from_mem_pool(POOL).map(|_| ()), Some(()), "all room is back");
}

#[test]
fn what_makes_no_sense_is_an_answer_and_the_dummy_goes_on() {
    let scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    let bytes = Buffer::from_vec(content("x", 100));
    let long = "k".repeat(5000);
    let group = "g".repeat(2000);
    let slices = || SliceList::from(bytes.raw());
    let items = [
        PutSource::new("", slices()),
        PutSource::new(&long, slices()),
        PutSource { group: &group, ..PutSource::new("grouped", slices()) },
        PutSource::new("nothing", SliceList::default()),
        PutSource::new("nowhere", SliceList::from(RawSlice::unmapped(10))),
        PutSource::new("good", slices()),
    ];
    let results = dummy.put(&items, &ReplicateConfig::default());
    let invalid = Err(ErrorCode::InvalidParams);
    let no_key = Err(ErrorCode::InvalidKey);
    assert_eq!(results, [no_key, no_key, invalid, invalid, invalid, Ok(())]);
    assert_eq!(dummy.exist(&[&long, "good"]), [Err(ErrorCode::InvalidKey), Ok(true)]);
    assert_eq!(dummy.prefix_len(&["good", &long], 0), Err(ErrorCode::InvalidKey));
    let many = vec!["good"; 2 * limits::MAX_BATCH_KEYS + 1];
    assert_eq!(dummy.prefix_len(&many, 0), Ok(many.len() as u64));
    assert_eq!(get(&dummy, &long), Err(ErrorCode::InvalidKey));
    assert_eq!(get_into(&dummy, "good", RawSlice::unmapped(200)), Err(ErrorCode::InvalidParams));
    assert_eq!(get_into(&dummy, "good", RawSlice::EMPTY), Err(ErrorCode::InvalidParams));
    let preferred = ReplicateConfig { preferred_segments: vec![&long], ..Default::default() };
    assert_eq!(dummy.put(&items[5..], &preferred), [invalid]);
    assert_eq!(dummy.clear_replicas(&["good"], &long), [invalid]);
    assert_eq!(get(&dummy, "good"), Ok(content("x", 100)));
}

#[test]
fn registered_memory_is_checked_as_on_a_store() {
    let scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    let memory = HostMemory::of_process();
    let address = memory.alloc(8192).expect("there is memory");
    let before = crate::scene::mappings(std::process::id());
    assert_eq!(dummy.register(address, 8192), Ok(()));
    assert_eq!(crate::scene::mappings(std::process::id()), before + 1, "the host maps it at once");
    assert_eq!(dummy.register(address + 100, 10), Err(ErrorCode::InvalidParams));
    assert_eq!(dummy.check_registered(address, usize::MAX), Err(ErrorCode::InvalidParams));
    let known = dummy.check_registered(address + 10, 20).expect("it is registered");
    assert_eq!((known.start, known.end, known.place), (address, address + 8192, Place::Host));
    assert_eq!(dummy.unregister(address), Ok(()));
    assert_eq!(dummy.unregister(address), Err(ErrorCode::InvalidParams));
    assert!(memory.free(address));
    let again = memory.alloc(4096).expect("there is memory");
    assert_eq!(dummy.register(again, 4096), Ok(()));
    let now = crate::scene::mappings(std::process::id());
    assert_eq!(now, before + 1, "what was freed is unmapped when more is shared");
}

#[test]
fn memory_that_the_host_takes_no_more_of_passes_through_the_pool() {
    let scene = Scene::new(16 << 20);
    let dummy = scene.dummy();
    let before = crate::scene::mappings(std::process::id());
    for number in 0..300 {
        let address = HostMemory::of_process().alloc(4096).expect("there is memory");
        let (memory, key) = (at(address, 4096), format!("key {number}"));
        memory.write_from(&content(&key, 4096));
        assert_eq!(put_from(&dummy, &key, memory), Ok(()));
        memory.write_from(&[0; 4096]);
        assert_eq!(get_into(&dummy, &key, memory), Ok(4096));
        assert_eq!(memory.to_vec(), content(&key, 4096));
    }
    let shared = crate::scene::mappings(std::process::id()) - before - 300;
    // A dummy may share 256 regions, and its pool is one of them.
    assert_eq!(shared, 255);
}

#[test]
fn a_dummy_that_cannot_be_served_says_why() {
    let scene = Scene::new(1 << 20);
    let open = |config: DummyConfig| DummyStore::open(config).map(|_| ()).expect_err("a mistake");
    for (address, reason) in [
        ("localhost", "it names no port"),
        ("localhost:x", "the port must be a number from 1 to 65535"),
        ("", "it names no port"),
    ] {
        let text = address.to_owned();
        let error = open(DummyConfig { server_address: address.to_owned(), ..scene.config() });
        assert_eq!(error, DummyError::Address { text, reason });
        assert_eq!(error.code(), ErrorCode::InvalidParams);
    }
    let nobody = open(config(9));
    assert_eq!(nobody.code(), ErrorCode::RpcFail);
    let expected = "nobody serves @mooncake_client_9.sock: Connection refused (os error 111)";
    assert!(nobody.to_string().contains(expected), "{nobody}");
    let wrong = open(DummyConfig { auth_token: "guess".into(), ..scene.config() });
    assert_eq!(wrong.code(), ErrorCode::IllegalClient);
    assert!(!wrong.to_string().contains("guess"), "{wrong}");
    let len = 513;
    let long = open(DummyConfig { auth_token: "t".repeat(len).into(), ..scene.config() });
    assert_eq!(long, DummyError::TokenTooLong { len });
    let huge = open(DummyConfig { mem_pool_bytes: u64::MAX, ..scene.config() });
    assert_eq!(huge.code(), ErrorCode::InvalidParams);

    let port = scene.port;
    let second = DummyServer::start(Arc::clone(&scene.store), server_config(port));
    assert_eq!(second.map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::AddrInUse));
}

#[test]
fn a_dummy_without_a_pool_moves_shared_memory_only() {
    let scene = Scene::new(1 << 20);
    let config = DummyConfig { local_buffer_bytes: 0, ..scene.config() };
    let dummy = DummyStore::open(config).expect("it is served");
    assert!(!dummy.allows_copies() && dummy.alloc_from_mem_pool(1).is_none());
    assert_eq!(put(&dummy, "copied", 10), Err(ErrorCode::InvalidParams));
    let address = HostMemory::of_process().alloc(4096).expect("there is memory");
    let memory = at(address, 4096);
    memory.write_from(&content("shared", 4096));
    assert_eq!(put_from(&dummy, "shared", memory), Ok(()));
    assert_eq!(get_into(&dummy, "shared", memory), Ok(4096));
    assert_eq!(get(&dummy, "shared"), Err(ErrorCode::InvalidParams));
}

#[test]
fn a_dummy_that_is_closed_leaves_nothing_behind() {
    let scene = Scene::new(1 << 20);
    let region = Region::anonymous(4096).expect("a little memory");
    let before = crate::scene::mappings(std::process::id());
    let dummy = scene.dummy();
    assert_eq!(scene.server.attached(), 1);
    assert_eq!(put(&dummy, "key", 10), Ok(()));
    dummy.close();
    dummy.close();
    eventually("the dummy is gone", || scene.server.attached() == 0);
    assert_eq!(dummy.exist(&["key"]), [Err(ErrorCode::UnavailableInCurrentStatus)]);
    assert_eq!(dummy.prefix_len(&["key"], 0), Err(ErrorCode::UnavailableInCurrentStatus));
    assert_eq!(dummy.health(), Health::MasterUnreachable);
    drop(dummy);
    eventually("its memory is gone", || crate::scene::mappings(std::process::id()) == before);
    drop(region);
    assert_eq!(crate::rig::get(&scene.store, "key"), Ok(content("key", 10)));
}
