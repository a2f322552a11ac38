//! Bytes that arrive.

use std::time::{Duration, Instant};

use mooncake_fabric::{Access, Direction, Limits, Part, RemoteMemory, TransferError};
use mooncake_memory::HeldSlice;

use crate::peer::PeerProcess;
use crate::{PROVIDERS, expected, local, open, soon, sum};

/// Limits so small that every transfer has several requests, and crosses pieces.
const SMALL: Limits = Limits { piece_bytes: 40_000, request_bytes: 30_000, requests: 8 };

fn part(local: HeldSlice, remote: &RemoteMemory, offset: u64) -> Part<'_> {
    Part { local: local.into(), remote, offset }
}

fn for_each_provider(check: impl Fn(&str)) {
    for provider in PROVIDERS {
        let begun = Instant::now();
        check(provider);
        println!("{provider}: {:?}", begun.elapsed());
    }
}

#[test]
fn bytes_of_any_number_are_read_and_written() {
    for_each_provider(|provider| {
        let (mut peer, address) = PeerProcess::start(provider);
        let (_domain, initiator) = open(provider, Limits::default());
        let there = initiator.connect(&address).unwrap();
        let most = if provider == "udp" { 1 << 20 } else { 64 << 20 };
        let (lent, room) =
            (peer.expose(most, Access::Read, 1), peer.expose(most, Access::Write, 2));
        for len in [8, 1000, 4096, 65_536, 100_001, 1 << 20, most] {
            let (offset, memory) = ((most - len) / 2, local(len, 3));
            let batch =
                there.submit(Direction::Read, &[part(memory.clone(), &lent, offset as u64)]);
            batch.unwrap().wait(soon()).unwrap_or_else(|error| panic!("{provider} {len}: {error}"));
            assert!(memory.raw().to_vec() == expected(offset, len, 1), "{provider}: read of {len}");
        }
        let memory = local(most, 4);
        let halves = [(0, most / 2), (most / 2, most - most / 2)];
        let parts = halves.map(|(from, len)| part(memory.sub(from, len), &room, from as u64));
        there.submit(Direction::Write, &parts).unwrap().wait(soon()).unwrap();
        assert_eq!(peer.sum(2), sum(memory.raw()), "{provider}: a write that has ended is there");
    });
}

#[test]
fn batches_larger_than_the_room_for_requests_are_carried_out() {
    for_each_provider(|provider| {
        let (mut peer, address) = PeerProcess::start(provider);
        let (_domain, initiator) = open(provider, SMALL);
        let there = initiator.connect(&address).unwrap();
        let lent = peer.expose(1_000_000, Access::ReadWrite, 7);
        let memory = local(1_000_000, 0);
        // Small parts in disorder, and one that is cut at 30,000 bytes.
        let small = (0..500).map(|at| (at * 613 % 500) * 1000);
        let mut parts: Vec<_> =
            small.map(|from| part(memory.sub(from, 1000), &lent, from as u64)).collect();
        parts.push(part(memory.sub(500_000, 500_000), &lent, 500_000));
        there.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
        assert!(memory.raw().to_vec() == expected(0, 1_000_000, 7), "{provider}");
        let memory = local(1_000_000, 8);
        let parts: Vec<_> = (0..1000)
            .map(|at| part(memory.sub(at * 1000, 1000), &lent, at as u64 * 1000))
            .collect();
        there.submit(Direction::Write, &parts).unwrap().wait(soon()).unwrap();
        assert_eq!(peer.sum(1), sum(memory.raw()), "{provider}");
    });
}

#[test]
fn threads_share_an_initiator_and_whoever_waits_moves_all_batches() {
    for_each_provider(|provider| {
        let (mut peer, address) = PeerProcess::start(provider);
        let (_domain, initiator) = open(provider, SMALL);
        let there = initiator.connect(&address).unwrap();
        let lent = peer.expose(100_000, Access::Read, 7);
        // Nobody waits for the first one until the others have ended.
        let first = local(100_000, 0);
        let early = there.submit(Direction::Read, &[part(first.clone(), &lent, 0)]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (there, lent) = (&there, &lent);
                scope.spawn(move || {
                    for turn in 0..10 {
                        let (from, memory) = (thread * 20_000 + turn * 100, local(9_999, 0));
                        let parts = [part(memory.clone(), lent, from as u64)];
                        there.submit(Direction::Read, &parts).unwrap().wait(soon()).unwrap();
                        assert!(memory.raw().to_vec() == expected(from, 9_999, 7), "{provider}");
                    }
                });
            }
        });
        early.wait(soon()).unwrap();
        assert!(first.raw().to_vec() == expected(0, 100_000, 7), "{provider}");
    });
}

#[test]
fn what_lies_outside_of_the_remote_memory_is_refused_before_it_is_submitted() {
    for_each_provider(|provider| {
        let (mut peer, address) = PeerProcess::start(provider);
        let (_domain, initiator) = open(provider, Limits::default());
        let there = initiator.connect(&address).unwrap();
        let lent = peer.expose(1000, Access::Read, 7);
        for (offset, len) in [(1, 1000), (1000, 1), (u64::MAX, 8)] {
            let parts = [part(local(len, 0), &lent, offset)];
            let error = there.submit(Direction::Read, &parts).unwrap_err();
            let len = len as u64;
            assert_eq!(error, TransferError::OutOfRange { offset, len, remote_len: 1000 });
        }
        there.submit(Direction::Read, &[]).unwrap().wait(soon()).unwrap();
    });
}

#[test]
fn nothing_is_waited_for_longer_than_until_the_deadline() {
    for_each_provider(|provider| {
        let (mut peer, address) = PeerProcess::start(provider);
        let lent = peer.expose(1 << 20, Access::Read, 7);
        peer.signal(rustix::process::Signal::STOP);
        let (_domain, initiator) = open(provider, Limits::default());
        let there = initiator.connect(&address).unwrap();
        let parts = [part(local(1 << 20, 0), &lent, 0)];
        let batch = there.submit(Direction::Read, &parts).unwrap();
        let begun = Instant::now();
        let error = batch.wait(begun + Duration::from_millis(300)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(3), "{provider}: {:?}", begun.elapsed());
        let TransferError::DeadlinePassed { peer: who, own, device, waited } = &error else {
            panic!("{provider}: {error}");
        };
        assert_eq!(*who, address.to_string());
        assert_eq!(*own, initiator.address().to_string());
        assert!(device.contains(provider), "{error}");
        assert!(*waited >= Duration::from_millis(300), "{error}");
    });
}
