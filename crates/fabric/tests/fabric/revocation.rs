//! Who may still write: a writer that is late reaches nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::{Access, Direction, Domain, Initiator, Limits, Part, Revocation, Target};
use mooncake_memory::HeldSlice;
use rustix::process::Signal;

use crate::peer::PeerProcess;
use crate::{PROVIDERS, local, open, options, sum};

/// So much that the writer can be stopped in the middle of it.
const BYTES: usize = 64 << 20;

/// Waits until some of the memory has changed. Says whether it has.
fn sees_first_bytes(memory: &HeldSlice) -> bool {
    let (first, deadline) = (memory.sub(0, 8), Instant::now() + Duration::from_secs(3));
    let before = first.raw().to_vec();
    while first.raw().to_vec() == before && Instant::now() < deadline {}
    first.raw().to_vec() != before
}

#[test]
fn a_writer_that_is_stopped_in_the_middle_reaches_nothing_once_it_was_revoked() {
    // The others are too unreliable for so much.
    for provider in ["tcp", "shm"] {
        println!("{provider}");
        let domain = Domain::open(&options(provider), Limits::default()).unwrap();
        let begin = || {
            let (mut writer, _) = PeerProcess::start(provider);
            let target = Target::open(&domain).unwrap();
            let memory = local(BYTES, 0);
            let exposed = target.expose(memory.clone(), Access::Write).unwrap();
            writer.begin_write(target.address(), exposed.remote(), BYTES, 1);
            sees_first_bytes(&memory).then_some((writer, target, memory, exposed))
        };
        // Once in ten times or so, a writer over `shm` does not connect. This test is about those that write.
        let begun = (0..5).find_map(|_| begin());
        let (mut writer, target, memory, exposed) = begun.expect("of five writers one begins");
        writer.signal(Signal::STOP);
        match domain.device().revocation() {
            Revocation::Key => drop(exposed),
            Revocation::Endpoint => drop(target),
        }
        let left = sum(memory.raw());
        writer.signal(Signal::CONT);
        let ended = writer.end_write(Duration::from_secs(1));
        assert!(ended.is_err(), "{provider}: the writer had not ended");
        assert_eq!(sum(memory.raw()), left, "{provider}: nothing arrived after that");
    }
}

#[test]
fn memory_is_unmapped_in_the_middle_of_a_read_once_its_target_is_closed() {
    for provider in ["tcp", "shm"] {
        println!("{provider}");
        let (mut reader, _) = PeerProcess::start(provider);
        let domain = Domain::open(&options(provider), Limits::default()).unwrap();
        let (target, lent) = (Target::open(&domain).unwrap(), local(BYTES, 1));
        let exposed = target.expose(lent.clone(), Access::Read).unwrap();
        reader.begin_read(target.address(), exposed.remote(), BYTES);
        target.close();
        let region = Arc::downgrade(lent.region());
        drop((exposed, lent));
        assert!(region.upgrade().is_none(), "{provider}: it is unmapped");
        let ended = reader.end_read();
        println!("{ended:?}");
        assert!(ended.is_err(), "{provider}: the reader was in the middle");
        // This process works on.
        let again = Target::open(&domain).unwrap();
        let exposed = again.expose(local(BYTES, 2), Access::Read).unwrap();
        reader.begin_read(again.address(), exposed.remote(), BYTES);
        assert_eq!(reader.end_read(), Ok(()), "{provider}");
    }
}

#[test]
fn a_key_that_was_revoked_is_refused_and_so_is_one_that_never_was() {
    for provider in PROVIDERS {
        let (mut peer, address) = PeerProcess::start(provider);
        let (revoked, kept) =
            (peer.expose(4096, Access::ReadWrite, 1), peer.expose(4096, Access::ReadWrite, 2));
        let (domain, first) = open(provider, Limits::default());
        let local = local(4096, 3);
        let run = |initiator: &Initiator, direction, remote| {
            let there = initiator.connect(&address).unwrap();
            let parts = [Part { local: local.clone().into(), remote, offset: 0 }];
            let deadline = Instant::now() + Duration::from_secs(2);
            there.submit(direction, &parts).unwrap().wait(deadline)
        };
        run(&first, Direction::Read, &revoked).unwrap();
        peer.revoke(1);
        let mut foreign = kept.to_bytes();
        let end = foreign.len();
        foreign[end - 5] ^= 0x55;
        let foreign = mooncake_fabric::RemoteMemory::from_bytes(&foreign).unwrap();
        for (what, remote) in [("revoked", &revoked), ("foreign", &foreign)] {
            for direction in [Direction::Read, Direction::Write] {
                let initiator = Initiator::open(&domain).unwrap();
                let begun = Instant::now();
                let result = run(&initiator, direction, remote);
                println!("{provider} {what} {direction:?}: {result:?} {:?}", begun.elapsed());
                assert!(result.is_err(), "{provider} {what} {direction:?}");
            }
        }
        // Others are served still.
        let again = Initiator::open(&domain).unwrap();
        run(&again, Direction::Read, &kept).unwrap();
        run(&again, Direction::Write, &kept).unwrap();
        assert_eq!(peer.sum(2), sum(local.raw()), "{provider}");
        assert_eq!(peer.sum(1), sum(crate::local(4096, 1).raw()), "{provider}");
    }
}

#[test]
fn memory_that_was_lent_to_read_is_not_written_and_the_other_way_round() {
    for provider in PROVIDERS {
        let (mut peer, address) = PeerProcess::start(provider);
        let (to_read, to_write) =
            (peer.expose(4096, Access::Read, 1), peer.expose(4096, Access::Write, 2));
        let (domain, _) = open(provider, Limits::default());
        for (direction, remote) in [(Direction::Write, &to_read), (Direction::Read, &to_write)] {
            let initiator = Initiator::open(&domain).unwrap();
            let there = initiator.connect(&address).unwrap();
            let parts = [Part { local: local(4096, 3).into(), remote, offset: 0 }];
            let deadline = Instant::now() + Duration::from_secs(2);
            let result = there.submit(direction, &parts).unwrap().wait(deadline);
            println!("{provider} {direction:?}: {result:?}");
            assert!(result.is_err(), "{provider} {direction:?}");
        }
        assert_eq!(peer.sum(1), sum(local(4096, 1).raw()), "{provider}");
    }
}
