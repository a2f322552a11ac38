//! Calls of the library that fail, one after the other: an error or success, no hang, and nothing left open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::testing::{calls_made, fail, fail_none, open_objects};
use mooncake_fabric::{
    Access, DeviceOptions, Direction, Domain, Initiator, Limits, Part, RemoteMemory, Target,
};
use mooncake_memory::{HeldSlice, Region};

/// So many calls of each function fail in turn.
const TURNS: usize = 4;

fn memory() -> HeldSlice {
    HeldSlice::whole(Arc::new(Region::anonymous(100_000).expect("room")))
}

/// All that the crate does, with a target and an initiator in one process. The error as text.
fn do_everything(provider: &str) -> Result<(), String> {
    let device = (provider == "tcp").then(|| "lo".to_owned());
    let options =
        DeviceOptions { provider: Some(provider.into()), device, ..DeviceOptions::default() };
    let limits = Limits { piece_bytes: 60_000, request_bytes: 30_000, requests: 2 };
    let domain = Domain::open(&options, limits).map_err(|error| error.to_string())?;
    let target = Target::open(&domain).map_err(|error| error.to_string())?;
    let (lent, local) = (memory(), memory());
    lent.raw().write_from(&[7; 100_000]);
    let exposed = target.expose(lent, Access::ReadWrite).map_err(|error| error.to_string())?;
    let remote = RemoteMemory::from_bytes(&exposed.remote().to_bytes()).expect("it is one");
    let initiator = Initiator::open(&domain).map_err(|error| error.to_string())?;
    let peer = initiator.connect(target.address()).map_err(|error| error.to_string())?;
    for direction in [Direction::Read, Direction::Write] {
        let part = Part { local: local.clone().into(), remote: &remote, offset: 0 };
        let batch = peer.submit(direction, &[part]).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + Duration::from_secs(1);
        batch.wait(deadline).map_err(|error| error.to_string())?;
        assert_eq!(local.raw().to_vec(), [7; 100_000], "success means that the bytes are there");
    }
    Ok(())
}

/// Waits until nothing of the library is open. The thread that lets targets work may hold a domain for another moment.
fn await_nothing_open(what: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while open_objects() != (0, 0) {
        assert!(Instant::now() < deadline, "{what}: {:?} stay open", open_objects());
        std::thread::yield_now();
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it can be listed").count()
}

/// If one of these fails, at the call of this number, an endpoint stays open: the provider would crash when it closes it.
const LEAVING: [(&str, usize); 2] = [("fi_bind", 0), ("fi_control", 1)];

fn check(provider: &str) {
    do_everything(provider).unwrap_or_else(|error| panic!("{provider}: {error}"));
    await_nothing_open(provider);
    let (before, calls) = (open_descriptors(), calls_made());
    assert!(calls.len() >= 15, "each function is called: {calls:?}");
    let is_leaving = |call: &str| LEAVING.iter().any(|(leaving, _)| *leaving == call);
    let mut failed = 0;
    for call in calls.keys().filter(|call| !is_leaving(call)) {
        println!("{provider}: {call}");
        for turn in 0..TURNS {
            fail(call, turn, libc_eio());
            let begun = Instant::now();
            let result = do_everything(provider);
            assert!(begun.elapsed() < Duration::from_secs(5), "{provider} {call}: {result:?}");
            await_nothing_open(&format!("{provider}, failure {turn} of {call}: {result:?}"));
            if !fail_none() {
                break;
            }
            if let Err(error) = result {
                failed += 1;
                let is_named = error.contains(&format!("{call} failed: "));
                // The thread that lets targets work closes one whose queue fails.
                let is_consequence = ["did not answer", "the endpoint is closed"];
                let is_consequence = is_consequence.iter().any(|text| error.contains(text));
                assert!(is_named || is_consequence, "{call}: {error}");
            }
        }
    }
    assert!(failed > 15, "{provider}: most failures are told ({failed})");
    do_everything(provider).expect("nothing is left of them");
    await_nothing_open(provider);
    // All objects are closed. But the provider `tcp` never closes a socket that it has accepted and not yet greeted when its
    // endpoint is closed. After dozens of failures that was seen once or twice.
    let left = open_descriptors().saturating_sub(before);
    assert!(left <= 4, "{provider}: {left} descriptors are left of {failed} failures");
    for (call, before) in LEAVING {
        fail(call, before, libc_eio());
        let error = do_everything(provider).unwrap_err();
        assert!(error.contains("Input/output error"), "{call}: {error}");
    }
}

/// An error that nothing expects.
fn libc_eio() -> i32 {
    5
}

#[test]
fn whichever_call_fails_there_is_an_error_and_nothing_is_left() {
    check("tcp");
}
