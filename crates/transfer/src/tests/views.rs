//! Objects that are viewed in place, while writers want their ranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mooncake_memory::Buffer;
use mooncake_types::SegmentId;

use super::rig::{
    Node, Object, all_ok, by, read_all, server_config, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::testing::first_mismatch;
use crate::{LocalTransport, Paths, SegmentHost, ServerConfig, Transports, View, ViewOp};

fn op(object: &Object) -> ViewOp {
    let range = object.read_op(0, Buffer::zeroed(object.len as usize).raw().into()).range;
    ViewOp { endpoint: Arc::clone(&object.endpoint), range }
}

fn show(paths: &Paths, object: &Object) -> Option<View> {
    paths.show(&[op(object)]).remove(0)
}

fn shown(paths: &Paths, object: &Object) -> View {
    let view = show(paths, object).expect("it is there to be seen");
    assert!(is(&view, object));
    view
}

fn is(view: &View, object: &Object) -> bool {
    let bytes = view.raw().to_vec();
    bytes.len() as u64 == object.len
        && first_mismatch(&bytes, &object.key, object.version, 0).is_none()
}

fn newer(object: &Object, counter: u64) -> Object {
    Object { version: version(counter), ..object.clone() }
}

/// Runs `check` with the paths of a process of the node's host, and with those of the node itself.
fn either_way(len: u64, check: impl Fn(&Node, &Paths)) {
    let node = Node::start(1, len);
    check(&node, &by("shm,tcp"));
    let node = Node::start(1, len);
    let local = LocalTransport::new(Arc::clone(&node.host) as Arc<dyn SegmentHost>);
    check(&node, &Paths::new(Some(local), tcp_config(), Transports::default()));
}

#[test]
fn an_object_is_seen_for_as_long_as_somebody_looks() {
    either_way(8 << 20, |node, paths| {
        let objects = [Object::at(node, 100, 3 << 20, 1), Object::at(node, 4 << 20, 1, 2)];
        assert_eq!(write_all(&tcp(), &objects), all_ok(2));
        let views: Vec<View> = objects.iter().map(|object| shown(paths, object)).collect();
        let again = shown(paths, &objects[0]);
        assert_eq!(node.host.pins(), 3);
        assert!(views.iter().chain([&again]).all(|view| !view.is_detached()));
        drop(views);
        assert!(is(&again, &objects[0]));
        drop(again);
        wait_until("nothing is pinned", || node.host.pins() == 0);
        assert_eq!(node.host.reads(), 0, "nothing was copied");
    });
}

#[test]
fn many_are_seen_with_one_question_and_what_is_not_there_is_not() {
    either_way(8 << 20, |node, paths| {
        let objects: Vec<Object> =
            (0..20).map(|at| Object::at(node, at * 100_000, 100_000, at + 1)).collect();
        assert_eq!(write_all(&tcp(), &objects), all_ok(20));
        let mut ops: Vec<ViewOp> = objects.iter().map(op).collect();
        ops[3].range.version = version(90);
        ops[5].range.len += 1;
        ops[7].range.segment = SegmentId(9);
        ops[9].range.offset += 1;
        ops[11].range.from = u64::MAX;
        ops[13].range.len = 0;
        let views = paths.show(&ops);
        for (at, (view, object)) in views.iter().zip(&objects).enumerate() {
            let is_there = ![3, 5, 7, 9, 11, 13].contains(&at);
            assert_eq!(view.as_ref().is_some_and(|view| is(view, object)), is_there, "{at}");
        }
    });
}

#[test]
fn who_wants_the_place_gets_it_and_the_view_stays_as_it_is() {
    either_way(8 << 20, |node, paths| {
        let old = Object::at(node, 5000, 3 << 20, 1);
        assert_eq!(write_all(&tcp(), std::slice::from_ref(&old)), all_ok(1));
        let mut views = vec![shown(paths, &old), shown(paths, &old)];
        for counter in 2..20 {
            let (new, others) = (newer(&old, counter), [&tcp() as &dyn crate::Transport, paths]);
            let writer = others[counter as usize % 2];
            assert_eq!(write_all(writer, std::slice::from_ref(&new)), all_ok(1), "{counter}");
            assert_eq!(read_all(paths, std::slice::from_ref(&new)), all_ok(1));
            assert!(views.iter().take(2).all(|view| is(view, &old) && view.is_detached()));
            assert!(show(paths, &old).is_none(), "it is there no more");
            views.push(shown(paths, &new));
        }
        wait_until("only the last is pinned", || node.host.pins() == 1);
        for (view, counter) in views.iter().skip(2).zip(2..) {
            assert!(is(view, &newer(&old, counter)), "{counter}");
        }
    });
}

#[test]
fn what_is_removed_is_seen_on_but_not_anew() {
    either_way(8 << 20, |node, paths| {
        let object = Object::at(node, 5000, 300_000, 1);
        assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
        let view = shown(paths, &object);
        node.host.drop_entries(node.segment);
        assert!(is(&view, &object) && !view.is_detached());
        assert!(show(paths, &object).is_none());
    });
}

#[test]
fn what_is_written_to_a_view_is_seen_by_nobody_else() {
    either_way(8 << 20, |node, paths| {
        let object = [Object::at(node, 5000, 300_000, 1)];
        assert_eq!(write_all(&tcp(), &object), all_ok(1));
        let (mine, other) = (shown(paths, &object[0]), shown(paths, &object[0]));
        mine.raw().sub(100_000, 4).write_from(b"mine");
        assert!(is(&other, &object[0]) && !is(&mine, &object[0]));
        assert_eq!(read_all(&tcp(), &object), all_ok(1));
        assert_eq!(write_all(&tcp(), &[newer(&object[0], 2)]), all_ok(1));
        assert_eq!(mine.raw().sub(100_000, 4).to_vec(), b"mine");
    });
}

#[test]
fn a_view_outlives_the_ways_it_came_by_and_the_node() {
    let node = Node::start(1, 8 << 20);
    let object = Object::at(&node, 5000, 300_000, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    let paths = by("shm");
    let view = shown(&paths, &object);
    drop(paths);
    assert!(is(&view, &object));
    let begun = Instant::now();
    node.server.stop();
    assert!(begun.elapsed() < Duration::from_secs(1), "it was let go");
    assert_eq!(node.host.pins(), 0);
    node.host.region(node.segment).unwrap().whole().write_from(&vec![7; 8 << 20]);
    assert!(is(&view, &object) && view.is_detached());
}

#[test]
fn a_node_that_shares_nothing_shows_nothing() {
    let config = ServerConfig { local_socket: false, ..server_config() };
    let node = Node::with_config(1, 1 << 20, config);
    let object = Object::at(&node, 0, 300_000, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    assert!(show(&by("shm,tcp"), &object).is_none());
    let node = Node::start(1, 1 << 20);
    let object = Object::at(&node, 0, 300_000, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    for ways in ["tcp", "process_vm", "process_vm,tcp"] {
        assert!(show(&by(ways), &object).is_none(), "{ways}");
    }
}

#[test]
fn no_more_is_pinned_than_one_connection_may() {
    let (node, paths) = (Node::start(1, 1 << 20), by("shm"));
    let object = Object::at(&node, 0, 100, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    let wanted = vec![op(&object); 1000];
    let mut views: Vec<Option<View>> = (0..5).flat_map(|_| paths.show(&wanted)).collect();
    assert_eq!(views.iter().flatten().count(), 4096);
    assert!(views[4095].is_some() && views[4096].is_none());
    assert!(show(&paths, &object).is_none());
    views.drain(..10);
    assert!(show(&paths, &object).is_some(), "there is room again");
    assert!(by("shm").show(&wanted).iter().all(Option::is_some), "others have room of their own");
}

/// Views are taken, read and dropped while writers use the same ranges. Every view has the version that was asked
/// for.
#[test]
fn who_looks_and_who_writes_mix_no_bytes() {
    const PLACES: u64 = 3;
    const LEN: u64 = 150_000;
    either_way(1 << 20, |node, paths| {
        let newest: [AtomicU64; PLACES as usize] = std::array::from_fn(|_| AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let object = |place: u64, counter| Object::at(node, place * LEN, LEN, counter);
        let deadline = Instant::now() + Duration::from_millis(700);
        std::thread::scope(|scope| {
            for reader in 0..2 {
                let (newest, stop, object) = (&newest, &stop, &object);
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for turn in reader.. {
                        if stop.load(Ordering::SeqCst) {
                            break;
                        }
                        let place = turn % PLACES;
                        let counter = newest[place as usize].load(Ordering::SeqCst);
                        let wanted = object(place, counter);
                        let Some(view) = show(paths, &wanted) else { continue };
                        assert!(is(&view, &wanted), "{wanted:?}");
                        kept.push((view, wanted));
                        if kept.len() > 5 {
                            kept.drain(..3).for_each(|(view, wanted)| {
                                assert!(is(&view, &wanted), "{wanted:?}, later");
                            });
                        }
                    }
                });
            }
            let writer = by("shm");
            for counter in 1.. {
                if Instant::now() > deadline && counter > 20 {
                    break;
                }
                let place = counter % PLACES;
                assert_eq!(write_all(&writer, &[object(place, counter)]), all_ok(1));
                newest[place as usize].store(counter, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
        });
        wait_until("nothing is pinned", || node.host.pins() == 0);
    });
}
