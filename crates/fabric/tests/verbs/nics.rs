//! Peers that are reached by several NICs, some of which fail.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::testing::{fail, fail_none, pretend_node};
use mooncake_fabric::{
    Access, Direction, Domain, Limits, NicUse, Part, Target, TransferError, VerbsOptions,
};
use mooncake_memory::HeldSlice;
use mooncake_verbs_double::control;

use crate::pair::{Pair, double, filled, join, soon, wait_until};

const MIB: usize = 1 << 20;
const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

/// A device of these NICs.
fn device(names: &str) -> Arc<Domain> {
    let options = VerbsOptions::default().with_devices(names);
    Domain::open_verbs(&options, Limits::default()).unwrap()
}

fn pair(nics: u8) -> Pair {
    control::set_nics(&control::usual_nics(nics));
    Pair::of(device("")).unwrap()
}

/// Bytes that differ from place to place.
fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 61 + at / 65_537) as u8 ^ seed).collect()
}

/// Moves bytes in this direction, and checks that they are there.
fn moves(pair: &Pair, direction: Direction, len: usize) -> Result<(), TransferError> {
    let (here, there) = (filled(len, 0), filled(len, 0));
    let exposed = pair.target.expose(there.clone(), Access::ReadWrite).unwrap();
    let (from, to) = match direction {
        Direction::Read => (&there, &here),
        Direction::Write => (&here, &there),
    };
    let bytes = pattern(len, len as u8);
    from.raw().write_from(&bytes);
    pair.transfer(direction, &here, exposed.remote())?;
    assert!(to.raw().to_vec() == bytes, "success means that the bytes are there");
    Ok(())
}

/// What each NIC of the double has carried out since this was noted.
fn carried(names: &[&str], since: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let each = names.iter().enumerate().map(|(at, name)| {
        let (requests, bytes) = control::carried(name);
        let (before, bytes_before) = since.get(at).copied().unwrap_or_default();
        (requests - before, bytes - bytes_before)
    });
    each.collect()
}

#[test]
fn long_transfers_are_cut_into_slices_that_go_by_all_nics() {
    let _double = double();
    for nics in [2_u8, 4] {
        let pair = pair(nics);
        let names: Vec<String> = (0..nics).map(|nic| format!("double{nic}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for direction in BOTH {
            let before = carried(&names, &[]);
            moves(&pair, direction, 16 * MIB).unwrap();
            let each = carried(&names, &before);
            let all: u64 = each.iter().map(|(_, bytes)| bytes).sum();
            // Behind the writes of a chain comes a read of a byte.
            assert!((16 * MIB as u64..17 * MIB as u64).contains(&all), "{each:?}");
            let fair = all / u64::from(nics);
            assert!(each.iter().all(|(_, bytes)| *bytes > fair / 3), "{direction:?}: {each:?}");
            let longest = each.iter().map(|(requests, bytes)| bytes / requests).max();
            assert!(longest <= Some(64 << 10), "{each:?}");
        }
        let counted: u64 = pair.domain.nics().iter().map(|nic| nic.read_bytes).sum();
        assert_eq!(counted, 16 * MIB as u64);
    }
}

#[test]
fn short_transfers_go_whole_by_one_nic_each_and_are_spread() {
    let _double = double();
    let pair = pair(2);
    let names = ["double0", "double1"];
    let before = carried(&names, &[]);
    for _ in 0..20 {
        moves(&pair, Direction::Read, 100_000).unwrap();
    }
    let each = carried(&names, &before);
    assert_eq!(each, [(10, 1_000_000), (10, 1_000_000)]);
}

#[test]
fn sides_with_different_numbers_of_nics_use_all_of_them() {
    let _double = double();
    control::set_nics(&control::usual_nics(6));
    let (two, four) = (device("double0,double1"), device("double2,double3,double4,double5"));
    let objects = control::objects()[3];
    let wide = Pair::between(Arc::clone(&two), &four).unwrap();
    assert_eq!(control::objects()[3], objects + 8, "four at each side");
    let narrow = Pair::between(four, &two).unwrap();
    for pair in [&wide, &narrow] {
        for direction in BOTH {
            let before = pair.domain.nics();
            moves(pair, direction, 8 * MIB).unwrap();
            let after = pair.domain.nics();
            let all_moved = before.iter().zip(&after).all(|(old, new)| new.requests > old.requests);
            assert!(all_moved, "{direction:?}: {after:?}");
        }
    }
}

fn nic(pair: &Pair, at: usize) -> NicUse {
    pair.domain.nics().swap_remove(at)
}

#[test]
fn a_nic_whose_port_fails_in_the_middle_is_left_out_and_taken_back_when_it_works() {
    let _double = double();
    for nics in [2, 4] {
        for direction in BOTH {
            let mut pair = pair(nics);
            assert!(!pair.peer.can_be_better() && !pair.peer.has_lost_ways());
            control::fail_nic_after("double1", 20);
            moves(&pair, direction, 16 * MIB).expect("the others carry out what it has not");
            wait_until("its failure is noticed", || !nic(&pair, 1).is_up);
            assert!(pair.peer.has_lost_ways() && pair.peer.can_be_better());
            assert!(nic(&pair, 1).lost_requests > 0);
            let before = control::carried("double1");
            moves(&pair, direction, 4 * MIB).unwrap();
            assert_eq!(control::carried("double1"), before, "it is left out");

            // A connection that is made meanwhile uses the others.
            pair.peer = join(&pair.initiator, &pair.target).unwrap();
            moves(&pair, direction, 4 * MIB).unwrap();
            control::set_port("double1", true);
            wait_until("it works again", || nic(&pair, 1).is_up);
            assert!(pair.peer.can_be_better());
            pair.peer = join(&pair.initiator, &pair.target).unwrap();
            assert!(!pair.peer.can_be_better());
            moves(&pair, direction, 4 * MIB).unwrap();
            assert!(control::carried("double1") > before, "it is used again");
        }
    }
}

/// A cable at the far side, for example: only completions tell of it.
#[test]
fn requests_that_a_nic_does_not_carry_out_go_by_the_others() {
    let _double = double();
    for direction in BOTH {
        let mut pair = pair(2);
        moves(&pair, direction, 4 * MIB).unwrap();
        control::cut("double0", true);
        moves(&pair, direction, 4 * MIB).expect("the other carries out what it has not");
        assert!(pair.peer.has_lost_ways() && pair.peer.can_be_better());
        assert!(nic(&pair, 0).is_up, "nothing tells that it does not work");
        control::cut("double0", false);
        pair.peer = join(&pair.initiator, &pair.target).unwrap();
        let before = control::carried("double0");
        moves(&pair, direction, 4 * MIB).unwrap();
        assert!(control::carried("double0") > before);
    }
}

#[test]
fn with_no_nic_that_works_a_transfer_is_an_error_and_peers_are_not_joined() {
    let _double = double();
    let pair = pair(2);
    control::set_port("double0", false);
    control::set_port("double1", false);
    wait_until("their failure is noticed", || pair.domain.nics().iter().all(|nic| !nic.is_up));
    let error = moves(&pair, Direction::Read, MIB).unwrap_err().to_string();
    assert!(error.contains("double") && error.contains("is down"), "{error}");
    let error = join(&pair.initiator, &pair.target).err().unwrap();
    assert!(error.contains("double") && error.contains("is down"), "{error}");
    control::set_port("double1", true);
    wait_until("one works again", || nic(&pair, 1).is_up);
    let peer = join(&pair.initiator, &pair.target).unwrap();
    let exposed = pair.target.expose(filled(100, 7), Access::Read).unwrap();
    let local = filled(100, 0);
    let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
    peer.submit(Direction::Read, &[part]).unwrap().wait(soon()).unwrap();
    assert_eq!(local.raw().to_vec(), [7; 100]);
}

/// A wrong request is wrong by every NIC.
#[test]
fn a_request_that_the_peer_refuses_is_not_tried_by_another_nic() {
    let _double = double();
    let pair = pair(4);
    let exposed = pair.target.expose(filled(100, 7), Access::Read).unwrap();
    let error = pair.transfer(Direction::Write, &filled(100, 1), exposed.remote()).unwrap_err();
    assert!(error.to_string().contains("remote access error"), "{error}");
    let lost: Vec<u64> = pair.domain.nics().iter().map(|nic| nic.lost_requests).collect();
    assert_eq!(lost.iter().filter(|&&lost| lost > 0).count(), 1, "{lost:?}");
    let local = filled(100, 1);
    pair.transfer(Direction::Read, &local, exposed.remote()).expect("by another NIC");
    assert_eq!(local.raw().to_vec(), [7; 100]);
}

#[test]
fn memory_that_one_nic_does_not_take_is_reached_by_the_others() {
    let _double = double();
    let pair = pair(2);
    // Each side registers with the first NIC, then with the second.
    for before in [1, 3] {
        fail("ibv_reg_mr", before, libc::EIO);
        let used = [control::carried("double0"), control::carried("double1")];
        moves(&pair, Direction::Read, 4 * MIB).unwrap();
        assert!(fail_none());
        assert!(control::carried("double0") > used[0]);
        assert_eq!(control::carried("double1"), used[1]);
    }
}

#[test]
fn a_nic_that_takes_no_requests_is_left_out() {
    let _double = double();
    for (direction, before) in [(Direction::Read, 0), (Direction::Write, 5)] {
        let pair = pair(2);
        fail("ibv_post_send", before, libc::EIO);
        moves(&pair, direction, 4 * MIB).expect("the other takes them");
        assert!(fail_none() && pair.peer.has_lost_ways());
        moves(&pair, direction, 4 * MIB).unwrap();
    }
}

#[test]
fn ends_that_cannot_be_made_or_joined_are_left_out() {
    let _double = double();
    let mut pair = pair(2);
    for (call, failing) in [("ibv_create_qp", 0..4), ("ibv_modify_qp", 0..12)] {
        for before in failing {
            fail(call, before, libc::EIO);
            pair.peer = join(&pair.initiator, &pair.target).unwrap();
            assert!(fail_none(), "{call}, {before}");
            let lost = || pair.domain.nics().iter().map(|nic| nic.lost_requests).sum::<u64>();
            let lost_before = lost();
            moves(&pair, Direction::Read, 4 * MIB).unwrap();
            assert_eq!(lost(), lost_before, "{call}, {before}: nothing was tried in vain");
        }
    }
}

#[test]
fn bytes_in_flight_are_bounded_for_each_nic() {
    const MOST: u64 = 32 << 20;
    let _double = double();
    let pair = pair(2);
    let exposed = pair.target.expose(filled(160 * MIB, 0), Access::Write).unwrap();
    let local = filled(160 * MIB, 5);
    control::hold_writes();
    let part = Part { local: local.into(), remote: exposed.remote(), offset: 0 };
    let batch = pair.peer.submit(Direction::Write, &[part]).unwrap();
    let written: Vec<u64> = pair.domain.nics().iter().map(|nic| nic.written_bytes).collect();
    control::let_writes_land();
    assert!(written.iter().all(|bytes| (1..=MOST).contains(bytes)), "{written:?}");
    batch.wait(Instant::now() + Duration::from_secs(20)).unwrap();
    assert_eq!(exposed.memory().raw().sub(159 * MIB, 9).to_vec(), [5; 9]);
}

#[test]
fn a_pair_of_nics_has_as_many_queue_pairs_as_are_asked_for() {
    let _double = double();
    let qps_per_peer = 3;
    let options = VerbsOptions { qps_per_peer, ..VerbsOptions::default() };
    for nics in [1, 2, 8] {
        control::set_nics(&control::usual_nics(nics));
        let domain = Domain::open_verbs(&options, Limits::default()).unwrap();
        let before = control::objects()[3];
        let pair = Pair::of(domain).unwrap();
        // At most 16 at each side.
        let expected = 2 * (usize::from(nics) * 3).min(16);
        assert_eq!(control::objects()[3] - before, expected);
        moves(&pair, Direction::Read, 4 * MIB).unwrap();
        moves(&pair, Direction::Write, 4 * MIB).unwrap();
    }
}

/// A tree like `/sys`, in which each NIC is on a node.
fn sysfs(nodes: &[(&str, u32)]) -> PathBuf {
    let sysfs = std::env::temp_dir().join(format!("mooncake-nics-{}", std::process::id()));
    for (name, node) in nodes {
        let folder = sysfs.join("devices/pci0000:10").join(format!("0000:10:0{node}.0/{name}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("numa_node"), format!("{node}\n")).unwrap();
        let class = sysfs.join("class/infiniband").join(name);
        fs::create_dir_all(&class).unwrap();
        symlink(&folder, class.join("device")).unwrap();
    }
    sysfs
}

#[test]
fn memory_goes_by_the_nics_that_are_nearest_to_it_while_they_work() {
    let _double = double();
    control::set_nics(&control::usual_nics(4));
    let tree = sysfs(&[("double0", 0), ("double1", 1), ("double2", 0), ("double3", 1)]);
    let options = VerbsOptions { sysfs: tree.clone(), ..VerbsOptions::default() };
    let pair = Pair::of(Domain::open_verbs(&options, Limits::default()).unwrap()).unwrap();
    fs::remove_dir_all(tree).unwrap();
    let used_by = |node, direction| {
        pretend_node(node);
        let before = pair.domain.nics();
        moves(&pair, direction, 4 * MIB).unwrap();
        let after = pair.domain.nics();
        let is_used = |(old, new): (&NicUse, &NicUse)| new.requests > old.requests;
        before.iter().zip(&after).map(is_used).collect::<Vec<bool>>()
    };
    for direction in BOTH {
        assert_eq!(used_by(Some(0), direction), [true, false, true, false]);
        assert_eq!(used_by(Some(1), direction), [false, true, false, true]);
        assert_eq!(used_by(Some(7), direction), [true; 4]);
        assert_eq!(used_by(None, direction), [true; 4]);
    }
    control::set_port("double1", false);
    control::set_port("double3", false);
    wait_until("their failure is noticed", || !nic(&pair, 1).is_up && !nic(&pair, 3).is_up);
    assert_eq!(used_by(Some(1), Direction::Read), [true, false, true, false]);
}

#[test]
fn nics_that_work_have_the_same_link_and_are_named_if_any_are_are_used() {
    let _double = double();
    control::set_nics(&control::usual_nics(3));
    let names = |domain: &Domain| -> Vec<String> {
        domain.nics().into_iter().map(|nic| nic.name).collect()
    };
    assert_eq!(names(&device("")), ["double0", "double1", "double2"]);
    assert_eq!(names(&device("double2,double0")), ["double2", "double0"]);
    let mut nics = control::usual_nics(3);
    nics[1].is_ethernet = false;
    nics[2].is_active = false;
    control::set_nics(&nics);
    assert_eq!(names(&device("")), ["double0"], "others have another link, or are down");
}

#[test]
fn peers_that_come_and_go_leave_nothing_at_any_nic() {
    let _double = double();
    let pair = pair(4);
    let exposed = pair.target.expose(filled(100, 7), Access::Read).unwrap();
    let local: HeldSlice = filled(100, 0);
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    let before = control::objects();
    for _ in 0..100 {
        let target = Target::open(&pair.domain).unwrap();
        let peer = join(&pair.initiator, &target).unwrap();
        let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
        peer.submit(Direction::Read, &[part]).unwrap().wait(soon()).unwrap();
    }
    assert_eq!(control::objects(), before);
}
