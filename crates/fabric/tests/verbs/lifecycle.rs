//! Peers that restart, come in masses, and processes that are forked.

use std::sync::Arc;

use mooncake_fabric::testing::open_objects;
use mooncake_fabric::{
    Access, ConnectError, Direction, Domain, Initiator, Limits, OpenError, Part, RegisterError,
    Target, TransferError, VerbsOptions,
};
use mooncake_verbs_double::control;

use crate::pair::{LEN, Pair, double, filled, join, memory, soon, wait_until};

#[test]
fn a_forked_child_gets_errors_and_leaves_its_parent_as_it_was() {
    let _double = double();
    control::set_nics(&control::usual_nics(2));
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (exposed, local) = (pair.expose(7, Access::Read), memory(0));
    // SAFETY: the child only uses what it has a copy of, and ends without running what its parent has set up.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
        let is_told = [
            pair.peer.submit(Direction::Read, &[part]).err() == Some(TransferError::Forked),
            pair.initiator.prepare(pair.target.address(), None).err() == Some(ConnectError::Forked),
            pair.target.admit(pair.target.address(), None).err() == Some(ConnectError::Forked),
            pair.target.expose(local, Access::Read).err() == Some(RegisterError::Forked),
            Initiator::open(&pair.domain).err() == Some(OpenError::Forked),
            !pair.peer.can_be_better(),
        ];
        drop((exposed, pair));
        // SAFETY: it ends this process alone.
        unsafe { libc::_exit(i32::from(is_told != [true; 6])) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and there is room for its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "it was told for each call");
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    assert_eq!(local.raw().to_vec(), [7; LEN]);
    control::set_port("double1", false);
    wait_until("the thread that is told of ports lives", || !pair.domain.nics()[1].is_up);
}

#[test]
fn a_peer_that_restarts_under_the_same_address_is_reached_by_new_ends_and_new_keys_alone() {
    let _double = double();
    let options = VerbsOptions::default();
    let here = Domain::open_verbs(&options, Limits::default()).unwrap();
    let initiator = Initiator::open(&here).unwrap();
    let node = || {
        let domain = Domain::open_verbs(&options, Limits::default()).unwrap();
        let target = Target::open(&domain).unwrap();
        let exposed = target.expose(memory(7), Access::ReadWrite).unwrap();
        (target, exposed)
    };
    let (target, exposed) = node();
    let before = join(&initiator, &target).unwrap();
    let (address, remote) = (target.address().clone(), exposed.remote().clone());
    drop((target, exposed));
    let (target, exposed) = node();
    assert_eq!(*target.address(), address);
    let local = memory(1);
    let write = |peer: &mooncake_fabric::Peer, remote| {
        let part = Part { local: local.clone().into(), remote, offset: 0 };
        peer.submit(Direction::Write, &[part]).and_then(|batch| batch.wait(soon()))
    };
    assert!(write(&before, &remote).is_err(), "the end that it was joined with is gone");
    assert!(write(&before, exposed.remote()).is_err());
    let after = join(&initiator, &target).unwrap();
    assert!(write(&after, &remote).is_err(), "its key is another");
    assert_eq!(exposed.memory().raw().to_vec(), [7; LEN]);
    let after = join(&initiator, &target).unwrap();
    write(&after, exposed.remote()).unwrap();
    assert_eq!(exposed.memory().raw().to_vec(), [1; LEN]);
}

#[test]
fn a_thousand_peers_are_joined_at_once_and_leave_nothing() {
    let _double = double();
    {
        let domain = Domain::open_verbs(&VerbsOptions::default(), Limits::default()).unwrap();
        let target = Target::open(&domain).unwrap();
        let initiator = Initiator::open(&domain).unwrap();
        let (exposed, local) = (target.expose(filled(100, 7), Access::Read), filled(100, 0));
        let exposed = exposed.unwrap();
        let before = control::objects();
        let peers: Vec<_> = std::thread::scope(|scope| {
            let (initiator, target) = (&initiator, &target);
            let join_some = || (0..250).map(|_| join(initiator, target).unwrap()).collect();
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(move || -> Vec<_> { join_some() })).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(control::objects()[3], before[3] + 2000);
        let batches = peers.iter().map(|peer| {
            let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
            peer.submit(Direction::Read, &[part]).unwrap()
        });
        for batch in batches.collect::<Vec<_>>() {
            batch.wait(soon()).unwrap();
        }
        drop(peers);
        // The ends of the target go with it.
        assert_eq!(control::objects()[3], before[3] + 1000);
    }
    assert_eq!((open_objects(), control::objects()), ((0, 0), [0; 4]));
}

/// Many threads post to few queues: what finds no room waits, and no queue is overrun, which the double would not bear.
#[test]
fn more_requests_than_queues_have_room_for_wait_for_their_turn() {
    let _double = double();
    control::set_nics(&control::usual_nics(2));
    let options = VerbsOptions { max_wr: 4, ..VerbsOptions::default() };
    let limits = Limits { request_bytes: 1000, requests: 4, ..Limits::default() };
    let pair = Pair::of(Domain::open_verbs(&options, limits).unwrap()).unwrap();
    let exposed = pair.expose(7, Access::ReadWrite);
    let others: Vec<_> =
        (0..8).map(|_| Arc::new(join(&pair.initiator, &pair.target).unwrap())).collect();
    std::thread::scope(|scope| {
        for (number, peer) in others.iter().enumerate() {
            let (exposed, len) = (&exposed, 30_000);
            let direction = [Direction::Read, Direction::Write][number % 2];
            scope.spawn(move || {
                for turn in 0..4 {
                    let local = filled(len, 7);
                    let part =
                        Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
                    let batch = peer.submit(direction, &[part]).unwrap();
                    batch.wait(soon()).unwrap();
                    assert_eq!(local.raw().to_vec(), vec![7; len], "turn {turn}");
                }
            });
        }
    });
}

#[test]
fn memory_that_may_not_be_locked_is_an_error_that_names_the_limit_and_the_rest_goes_on() {
    let _double = double();
    control::set_nics(&control::usual_nics(2));
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let exposed = pair.expose(7, Access::Read);
    let local = memory(1);
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    let objects = control::objects();
    // Each NIC counts the memory for itself.
    control::limit_registrations(Some(6 * LEN as u64));
    let error = pair.target.expose(memory(1), Access::Read).err().unwrap().to_string();
    assert!(error.contains("ulimit -l") && error.contains("memlock"), "{error}");
    let error = pair.transfer(Direction::Read, &memory(1), exposed.remote()).unwrap_err();
    assert!(
        matches!(error, TransferError::Register(RegisterError::LockedMemory { .. })),
        "{error}"
    );
    assert_eq!(control::objects(), objects, "what one NIC had taken is given back");
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
}
