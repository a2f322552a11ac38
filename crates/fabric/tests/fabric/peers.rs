//! Peers that come and go.

use std::path::Path;
use std::time::{Duration, Instant};

use mooncake_fabric::{
    Access, ConnectError, Direction, Domain, Initiator, Limits, Part, Target, TransferError,
};
use mooncake_memory::HeldSlice;

use crate::peer::PeerProcess;
use crate::{PROVIDERS, expected, local, open, options, soon};

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Bytes of this process in memory.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn read(initiator: &Initiator, target: &Target, memory: HeldSlice) {
    let exposed = target.expose(memory, Access::Read).unwrap();
    let there = initiator.connect(target.address()).unwrap();
    let mine = local(4096, 0);
    let parts = [Part { local: mine.clone().into(), remote: exposed.remote(), offset: 0 }];
    there.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
    assert!(mine.raw().to_vec() == expected(0, 4096, 1));
}

/// Lets peers come and go, a fifth of them before anything is measured. What stays of each peer stays in each part of the
/// rest; what a busy machine has not released yet is waited for.
fn check(provider: &str, crowd: usize, mut come_and_go: impl FnMut()) {
    let part = crowd / 5;
    (0..part).for_each(|_| come_and_go());
    let (open, mut least) = (open_descriptors(), usize::MAX);
    for _ in 1..5 {
        let bytes = resident_bytes();
        (0..part).for_each(|_| come_and_go());
        let end = soon();
        while open_descriptors() > open {
            assert!(Instant::now() < end, "{provider}: {} of {open}", open_descriptors());
            std::thread::sleep(Duration::from_millis(10));
        }
        least = least.min(resident_bytes().saturating_sub(bytes) / part);
    }
    assert!(least < 4096, "{provider}: {least} bytes stay of each peer");
}

#[test]
fn of_a_thousand_readers_nothing_is_left_at_a_target() {
    // `shm` bears no more than 256.
    for (provider, crowd) in [("tcp", 1000), ("shm", 250)] {
        let domain = Domain::open(&options(provider), Limits::default()).unwrap();
        let (target, memory) = (Target::open(&domain).unwrap(), local(4096, 1));
        check(provider, crowd, || {
            read(&Initiator::open(&domain).unwrap(), &target, memory.clone());
        });
    }
}

#[test]
fn of_a_thousand_targets_nothing_is_left_at_a_reader() {
    let (domain, initiator) = open("tcp", Limits::default());
    let memory = local(4096, 1);
    check("tcp", 1000, || read(&initiator, &Target::open(&domain).unwrap(), memory.clone()));
}

/// Each has an endpoint of its own, with a connection. The target closes, as when its process restarts, and all of them
/// come to the next one. They are no more, since the provider takes 71 MB for each endpoint.
#[test]
fn a_hundred_peers_that_reconnect_at_once_are_all_served() {
    const PEERS: usize = 100;
    const THREADS: usize = 25;
    let domain =
        Domain::open(&options("tcp"), Limits { requests: 4, ..Limits::default() }).unwrap();
    let (before, bytes) = (open_descriptors(), resident_bytes());
    let initiators: Vec<Initiator> =
        (0..PEERS).map(|_| Initiator::open(&domain).unwrap()).collect();
    println!("{} bytes for each endpoint", (resident_bytes() - bytes) / PEERS);
    for round in 1..3 {
        let (target, begun) = (Target::open(&domain).unwrap(), Instant::now());
        let exposed = target.expose(local(4096, round), Access::Read).unwrap();
        let read = &|initiator: &Initiator| {
            let (peer, mine) = (initiator.connect(target.address()).unwrap(), local(4096, 0));
            let parts = [Part { local: mine.clone().into(), remote: exposed.remote(), offset: 0 }];
            peer.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
            assert!(mine.raw().to_vec() == expected(0, 4096, round));
            // It is named until the target has gone.
            peer
        };
        let named: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = initiators
                .chunks(PEERS / THREADS)
                .map(|part| scope.spawn(move || part.iter().map(read).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        println!("{} peers in {:?}, {} bytes", named.len(), begun.elapsed(), resident_bytes());
        drop(target);
    }
    drop(initiators);
    let left = open_descriptors().saturating_sub(before);
    assert!(left < 20, "{left} descriptors stay of {PEERS} peers");
}

#[test]
fn more_peers_than_a_provider_bears_are_refused() {
    let (domain, initiator) = open("shm", Limits::default());
    let target = Target::open(&domain).unwrap();
    for _ in 0..256 {
        initiator.connect(target.address()).unwrap();
    }
    let error = initiator.connect(target.address()).unwrap_err();
    assert_eq!(error, ConnectError::TooMany { most: 256 });
}

#[test]
fn a_peer_that_is_killed_in_the_middle_is_an_error_and_others_are_served() {
    for provider in PROVIDERS {
        let (mut victim, its_address) = PeerProcess::start(provider);
        let (mut other, address) = PeerProcess::start(provider);
        let (domain, initiator) = open(provider, Limits { requests: 2, ..Limits::default() });
        let there = initiator.connect(&its_address).unwrap();
        let lent = victim.expose(128 << 20, Access::Read, 1);
        let mine = local(128 << 20, 2);
        let parts = [Part { local: mine.clone().into(), remote: &lent, offset: 0 }];
        let batch = there.submit(Direction::Read, &parts).unwrap();
        victim.kill();
        let begun = Instant::now();
        let error = batch.wait(begun + Duration::from_secs(2)).unwrap_err();
        println!("{provider}: {error} ({:?})", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(6), "{provider}: {error}");
        let is_expected =
            matches!(error, TransferError::Failed { .. } | TransferError::DeadlinePassed { .. });
        assert!(is_expected, "{provider}: {error}");
        drop((there, initiator));
        let initiator = Initiator::open(&domain).unwrap();
        let there = initiator.connect(&address).unwrap();
        let lent = other.expose(4096, Access::Read, 1);
        let parts = [Part { local: mine.sub(0, 4096).into(), remote: &lent, offset: 0 }];
        there.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
        assert!(mine.sub(0, 4096).raw().to_vec() == expected(0, 4096, 1), "{provider}");
    }
}

/// Each endpoint of `shm` is a file of 16 MB.
#[test]
fn of_a_killed_process_no_shared_memory_is_left() {
    let (mut victim, address) = PeerProcess::start("shm");
    let file = Path::new("/dev/shm").join(address.to_string().strip_prefix("fi_shm://").unwrap());
    victim.kill();
    assert!(file.exists(), "{}", file.display());
    let (_domain, _initiator) = open("shm", Limits::default());
    assert!(!file.exists(), "{}", file.display());
}

#[test]
fn a_batch_that_is_dropped_closes_its_initiator_so_that_its_memory_can_be_used_again() {
    for provider in ["tcp", "shm", "sockets"] {
        let (mut peer, address) = PeerProcess::start(provider);
        let lent = peer.expose(64 << 20, Access::Read, 1);
        let (_domain, initiator) = open(provider, Limits::default());
        let there = initiator.connect(&address).unwrap();
        let mine = local(64 << 20, 2);
        let parts = [Part { local: mine.sub(0, 8).into(), remote: &lent, offset: 0 }];
        there.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
        let parts = [Part { local: mine.clone().into(), remote: &lent, offset: 0 }];
        drop(there.submit(Direction::Read, &parts).unwrap());
        assert!(initiator.is_closed(), "{provider}");
        let error = there.submit(Direction::Read, &parts).unwrap_err();
        assert!(matches!(error, TransferError::Closed { .. }), "{provider}: {error}");
        let left = crate::sum(mine.raw());
        // The peer would go on meanwhile.
        assert_eq!(peer.sum(1), crate::sum(local(64 << 20, 1).raw()));
        assert_eq!(crate::sum(mine.raw()), left, "{provider}: nothing arrives later");
    }
}
