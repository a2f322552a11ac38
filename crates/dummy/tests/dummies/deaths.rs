//! Dummies that are killed, and a host process that stops.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, Health};
use mooncake_dummy::DummyStore;

use crate::rig::{content, eventually};
use crate::scene::{Scene, config, get, mappings, put, serve};

const PORT: &str = "MOONCAKE_TEST_DUMMY_PORT";

/// Runs in a child process: puts and gets until it is killed.
#[test]
#[ignore = "started as a process of its own by other tests"]
fn work_for_ever() {
    let port = std::env::var(PORT).expect("a parent").parse().expect("a port");
    let dummy = DummyStore::open(config(port)).expect("it is served");
    let key = |turn: usize| format!("{} {}", std::process::id(), turn % 4);
    for turn in 0.. {
        let _ = put(&dummy, &key(turn), 500_000);
        let _ = get(&dummy, &key(turn + 2));
        dummy.remove(&[&key(turn + 1)], true);
    }
}

/// A child process; dropping it kills it.
struct Worker(Child);

impl Worker {
    fn start(port: u16) -> Self {
        let path = std::env::current_exe().expect("a test is a program");
        let mut command = Command::new(path);
        command.args(["--exact", "deaths::work_for_ever", "--ignored"]).env(PORT, port.to_string());
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().expect("the program starts"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The process may have been killed already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn dummies_that_are_killed_in_the_middle_of_transfers_leave_nothing_behind() {
    let scene = Scene::new(64 << 20);
    let before = mappings(std::process::id());
    let steady = scene.dummy();
    for round in 0..3 {
        let mut workers: Vec<Worker> = (0..3).map(|_| Worker::start(scene.port)).collect();
        let at_work = |worker: &Worker| {
            let key = format!("^{} ", worker.0.id());
            scene.store.list_by_regex(&key).is_ok_and(|listed| !listed.is_empty())
        };
        eventually("all are at work", || workers.iter().all(at_work));
        for worker in &mut workers {
            worker.0.kill().expect("it runs");
            let key = format!("steady {round}");
            assert_eq!(put(&steady, &key, 100_000), Ok(()));
            assert_eq!(get(&steady, &key), Ok(content(&key, 100_000)));
            assert_eq!(steady.remove(&[&key], true), [Ok(())]);
        }
        eventually("the dummies are gone", || scene.server.attached() == 1);
        // The steady dummy and the host each map its pool.
        let theirs = || mappings(std::process::id()) == before + 2;
        eventually("their memory is gone", theirs);
    }
    // The host has discarded the dead dummies' puts, and the master's state is consistent.
    scene.master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn a_dummy_comes_back_when_its_host_does() {
    let scene = Scene::new(16 << 20);
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, "before", 1000), Ok(()));
    let (port, store) = (scene.port, Arc::clone(&scene.store));
    scene.server.stop();
    let begun = Instant::now();
    assert_eq!(put(&dummy, "meanwhile", 1000), Err(ErrorCode::RpcFail));
    assert_eq!(get(&dummy, "before"), Err(ErrorCode::RpcFail));
    assert_eq!(dummy.exist(&["before"]), [Err(ErrorCode::RpcFail)]);
    assert_eq!(dummy.health(), Health::MasterUnreachable);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());

    let again = mooncake_dummy::DummyServer::start(store, crate::scene::server_config(port));
    let again = again.expect("the socket is free again");
    assert_eq!(get(&dummy, "before"), Ok(content("before", 1000)));
    assert_eq!(put(&dummy, "after", 1000), Ok(()));
    assert_eq!(again.attached(), 1);
    drop(again);
}

#[test]
fn a_server_that_stops_answers_the_calls_under_way_first() {
    let scene = Scene::new(256 << 20);
    let (server, port) = serve(&scene.store);
    let dummies: Vec<DummyStore> =
        (0..4).map(|_| DummyStore::open(config(port)).expect("it is served")).collect();
    std::thread::scope(|scope| {
        for (number, dummy) in dummies.iter().enumerate() {
            scope.spawn(move || {
                for turn in 0.. {
                    let key = format!("{number} {turn}");
                    match put(dummy, &key, 200_000) {
                        Ok(()) => {}
                        Err(code) => return assert_eq!(code, ErrorCode::RpcFail),
                    }
                }
            });
        }
        eventually("they are at work", || {
            scene.store.list_by_regex(" 3$").is_ok_and(|listed| listed.len() >= 4)
        });
        server.stop();
    });
    assert_eq!(server.attached(), 0);
    scene.master.with_meta(|meta| assert_eq!(meta.check(), Ok(())));
}

#[test]
fn the_master_is_missed_through_the_host() {
    let mut scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    assert_eq!(dummy.health(), Health::Ok);
    scene.master.stop();
    eventually("the host misses its master", || dummy.health() == Health::MasterUnreachable);
}
