//! Transfers by queue pairs, over a double of libibverbs in this process.

mod device_memory;
mod lifecycle;
mod nics;
mod pair;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_fabric::testing::{
    calls_made, fail, fail_none, open_objects, try_verbs, verbs_symbols,
};
use mooncake_fabric::{
    Access, ConnectError, Direction, Domain, GidKind, Limits, OpenError, Part, RegisterError,
    RemoteMemory, Target, TransferError, VerbsError, VerbsOptions,
};
use mooncake_verbs_double::control::{self, FakeGid, FakeNic};
use pair::{LEN, Pair, double, join, memory, soon};

#[test]
fn bytes_are_read_and_written_and_only_the_last_request_of_a_chain_tells_that_it_has_ended() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions { max_wr: 32, ..VerbsOptions::default() }).unwrap();
    let (exposed, local) = (pair.expose(7, Access::ReadWrite), memory(0));
    let before = control::posted();
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    assert_eq!(local.raw().to_vec(), [7; LEN]);
    let after_read = control::posted();
    local.raw().write_from(&[9; LEN]);
    pair.transfer(Direction::Write, &local, exposed.remote()).unwrap();
    assert_eq!(exposed.memory().raw().to_vec(), [9; LEN], "a write that has ended is in memory");
    let after_write = control::posted();
    // 60 requests of 5,000 bytes, in chains of 16: four. Behind 15 writes comes a read.
    let read = (after_read.0 - before.0, after_read.1 - before.1, after_read.2 - before.2);
    assert_eq!(read, (4, 60, 4));
    let written = after_write.1 - after_read.1;
    let chains = after_write.0 - after_read.0;
    assert_eq!((written, after_write.2 - after_read.2), (60 + chains, chains));
    assert!(chains <= 6, "{chains}");
}

#[test]
fn short_writes_travel_in_their_requests() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (exposed, local) = (pair.expose(0, Access::Write), memory(5));
    for (offset, len) in [(3, 1), (100, 64), (1000, 65)] {
        let local = local.sub(0, len);
        let part = Part { local: local.into(), remote: exposed.remote(), offset };
        pair.peer.submit(Direction::Write, &[part]).unwrap().wait(soon()).unwrap();
        let found = exposed.memory().sub(offset as usize, len).raw().to_vec();
        assert_eq!(found, vec![5; len], "{len} bytes");
    }
    assert_eq!(exposed.memory().sub(4, 96).raw().to_vec(), [0; 96]);
}

#[test]
fn a_key_does_what_it_allows_and_ends_with_what_was_exposed() {
    let _double = double();
    let refused = |pair: &Pair, direction, remote: &RemoteMemory| {
        let result = pair.transfer(direction, &memory(1), remote);
        let Err(TransferError::Failed { error, .. }) = result else { panic!("{result:?}") };
        assert_eq!((error.number, &*error.text), (10, "remote access error"));
    };
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let exposed = pair.expose(7, Access::Read);
    refused(&pair, Direction::Write, exposed.remote());
    assert_eq!(exposed.memory().raw().to_vec(), [7; LEN]);
    let again = pair.transfer(Direction::Read, &memory(1), exposed.remote());
    assert!(matches!(again, Err(TransferError::Failed { .. })), "the end is broken: {again:?}");
    let other = Pair::of(Arc::clone(&pair.domain)).unwrap();
    let remote = exposed.remote().clone();
    drop(exposed);
    refused(&other, Direction::Read, &remote);
}

#[test]
fn a_request_that_fails_breaks_its_end_and_no_other() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (exposed, other) =
        (pair.expose(7, Access::Read), join(&pair.initiator, &pair.target).unwrap());
    control::fail_request(5, 12);
    let result = pair.transfer(Direction::Read, &memory(1), exposed.remote());
    let Err(TransferError::Failed { error, .. }) = result else { panic!("{result:?}") };
    let text = "libibverbs's ibv_poll_cq failed: transport retry counter exceeded (error 12)";
    assert_eq!(error.to_string(), text);
    assert!(!pair.initiator.is_closed());
    let local = memory(1);
    let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
    other.submit(Direction::Read, &[part]).unwrap().wait(soon()).unwrap();
    assert_eq!(local.raw().to_vec(), [7; LEN]);
}

/// The table of keys is small: the key of memory that was taken back is that of other memory some day.
#[test]
fn a_key_that_comes_again_is_worth_nothing_to_a_peer_whose_end_was_destroyed() {
    let _double = double();
    let Pair { target: first, initiator, domain, peer: _peer } =
        Pair::open(&VerbsOptions::default()).unwrap();
    let lent = memory(7).sub(0, 100_000);
    let expose = |target: &Target| target.expose(lent.clone(), Access::Write).unwrap();
    let remote = expose(&first).remote().clone();
    let (second, mut turns) = (Target::open(&domain).unwrap(), 0);
    let again = loop {
        let exposed = expose(&second);
        if *exposed.remote() == remote {
            break exposed;
        }
        turns += 1;
        assert!(turns < 2000, "keys come again");
    };
    let peer = join(&initiator, &first).unwrap();
    let write = || {
        let part = Part { local: memory(9).sub(0, 100_000).into(), remote: &remote, offset: 0 };
        peer.submit(Direction::Write, &[part]).unwrap().wait(soon())
    };
    assert_eq!(write(), Ok(()), "a key alone protects nothing");
    again.memory().raw().write_from(&[7; 100_000]);
    drop(first);
    assert!(write().is_err());
    assert_eq!(again.memory().raw().to_vec(), [7; 100_000]);
}

#[test]
fn a_peer_that_does_not_answer_is_given_up_and_memory_is_not_touched_later() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (exposed, local) = (pair.expose(0, Access::Write), memory(5));
    control::hold_writes();
    let part = Part { local: local.into(), remote: exposed.remote(), offset: 0 };
    let batch = pair.peer.submit(Direction::Write, &[part]).unwrap();
    let waited = batch.wait(Instant::now() + Duration::from_millis(200));
    assert!(matches!(waited, Err(TransferError::DeadlinePassed { .. })), "{waited:?}");
    assert!(pair.initiator.is_closed());
    control::let_writes_land();
    assert!(matches!(
        pair.initiator.prepare(pair.target.address(), None),
        Err(ConnectError::Closed)
    ));
}

#[test]
fn hosts_without_a_nic_that_works_are_told_why() {
    let _double = double();
    let check = |nics: &[FakeNic], options: VerbsOptions, expected: VerbsError| {
        control::set_nics(nics);
        let error = Domain::open_verbs(&options, Limits::default()).err();
        assert_eq!(error, Some(OpenError::Verbs(expected)));
    };
    let (default, usual) = (VerbsOptions::default(), control::usual_nic());
    let none_fits = |reason: &str| VerbsError::NoneFits { reasons: vec![reason.to_owned()] };
    check(&[], default.clone(), VerbsError::NoDevice);
    let down = FakeNic { is_active: false, ..usual.clone() };
    check(std::slice::from_ref(&down), default.clone(), none_fits("double0: port 1 is down"));
    let bare = FakeNic { gids: Vec::new(), ..usual.clone() };
    check(&[bare], default.clone(), none_fits("double0: port 1 has no GID"));
    let named = default.clone().with_devices("mlx5_0");
    check(std::slice::from_ref(&usual), named, none_fits("there is no mlx5_0, only double0"));
    let ninth = VerbsOptions { gid_index: Some(9), ..default.clone() };
    check(
        std::slice::from_ref(&usual),
        ninth,
        none_fits("double0: port 1 has no GID 9 (MC_GID_INDEX)"),
    );
    control::set_nics(&[down, FakeNic { name: "double1", ..usual }]);
    let domain = Domain::open_verbs(&default, Limits::default()).unwrap();
    assert_eq!(domain.device().name, "double1");
}

#[test]
fn ends_are_joined_by_the_best_gid_or_within_a_subnet_of_infiniband_by_lid() {
    let _double = double();
    let options = VerbsOptions { mtu: 512, traffic_class: 106, ..VerbsOptions::default() };
    let pair = Pair::open(&options).unwrap();
    assert_eq!(pair.domain.device().transport(), "libibverbs:RoCE");
    assert_eq!(control::last_route(), (true, 0, 2, 106));
    let nics = options.nics().unwrap();
    let best = nics[0].ports[0].best_gid().unwrap();
    assert_eq!((best.index, best.kind), (3, GidKind::RoceV2));
    let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    let gids = vec![FakeGid { kind: 0, address, interface: 0 }];
    control::set_nics(&[FakeNic { is_ethernet: false, gids, ..control::usual_nic() }]);
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    assert_eq!(pair.domain.device().transport(), "libibverbs:InfiniBand");
    let (is_global, lid, mtu, _) = control::last_route();
    // The port sends packets of 1,024 bytes now.
    assert_eq!((is_global, mtu), (false, 3));
    assert_ne!(lid, 0);
    let (exposed, local) = (pair.expose(7, Access::Read), memory(1));
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    assert_eq!(local.raw().to_vec(), [7; LEN]);
}

#[test]
fn a_wrong_gid_is_an_error_and_no_hang() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions { gid_index: Some(0), ..VerbsOptions::default() }).unwrap();
    let exposed = pair.expose(7, Access::Read);
    let result = pair.transfer(Direction::Read, &memory(1), exposed.remote());
    let text = result.expect_err("it leads nowhere").to_string();
    assert!(
        text.contains("fe80::1 queue pair") && text.contains("retry counter exceeded"),
        "{text}"
    );
    let address = Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped();
    let elsewhere = vec![FakeGid { kind: 2, address, interface: 2 }];
    control::set_nics(&[FakeNic { gids: elsewhere, ..control::usual_nic() }]);
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let exposed = pair.expose(7, Access::Read);
    assert!(pair.transfer(Direction::Read, &memory(1), exposed.remote()).is_err());
}

#[test]
fn addresses_of_another_link_and_wrong_bytes_are_not_joined() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let unfit = |error: Option<ConnectError>| {
        assert!(matches!(error, Some(ConnectError::Unfit { .. })), "{error:?}");
    };
    unfit(pair.initiator.connect(pair.target.address()).err());
    unfit(pair.target.admit(pair.target.address(), None).err());
    unfit(
        pair.initiator
            .prepare(pair.target.address(), None)
            .unwrap()
            .join(pair.target.address())
            .err(),
    );
    let too_little = control::objects();
    for _ in 0..50 {
        drop(pair.initiator.prepare(pair.target.address(), None).unwrap());
    }
    assert_eq!(control::objects(), too_little, "what is not joined is given up");
}

/// All that the crate does with a NIC. The error as text.
fn do_everything() -> Result<(), String> {
    let pair = Pair::open(&VerbsOptions { max_wr: 8, ..VerbsOptions::default() })?;
    let exposed = pair.target.expose(memory(7), Access::ReadWrite);
    let exposed = exposed.map_err(|error: RegisterError| error.to_string())?;
    let local = memory(1);
    for direction in [Direction::Read, Direction::Write] {
        let moved = pair.transfer(direction, &local, exposed.remote());
        moved.map_err(|error| error.to_string())?;
        assert_eq!(local.raw().to_vec(), [7; LEN], "success means that the bytes are there");
    }
    Ok(())
}

#[test]
fn a_call_that_fails_is_an_error_that_names_it_and_nothing_stays_open() {
    let _double = double();
    do_everything().unwrap();
    assert_eq!((open_objects(), control::objects()), ((0, 0), [0; 4]));
    let calls: Vec<&str> =
        calls_made().into_keys().filter(|call| call.starts_with("ibv_")).collect();
    assert!(calls.len() >= 13, "{calls:?}");
    for call in calls {
        for before in 0..4 {
            fail(call, before, libc::EIO);
            let result = do_everything();
            let has_failed = fail_none();
            let is_told = result.as_ref().is_err_and(|text| text.contains(call));
            // A thread that cannot wait polls again.
            let is_of_wait = ["ibv_req_notify_cq", "ibv_poll_cq"].contains(&call);
            assert!(!has_failed || is_told || is_of_wait, "{call}, {before}: {result:?}");
            assert_eq!((open_objects(), control::objects()), ((0, 0), [0; 4]), "{call}, {before}");
        }
    }
}

#[test]
fn too_little_memory_that_may_be_locked_names_the_limit() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    fail("ibv_reg_mr", 0, libc::ENOMEM);
    let error = pair.target.expose(memory(1), Access::Read).err();
    fail_none();
    let text = error.expect("it was to fail").to_string();
    assert!(text.contains("ulimit -l") && text.contains("ibv_reg_mr"), "{text}");
}

#[test]
fn a_thousand_peers_that_come_and_go_leave_nothing() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (exposed, local) = (pair.expose(7, Access::Read), memory(1).sub(0, 100));
    let before = control::objects();
    for _ in 0..1000 {
        let target = Target::open(&pair.domain).unwrap();
        let peer = join(&pair.initiator, &target).unwrap();
        let part = Part { local: local.clone().into(), remote: exposed.remote(), offset: 0 };
        peer.submit(Direction::Read, &[part]).unwrap().wait(soon()).unwrap();
    }
    assert_eq!(control::objects(), [before[0], before[1] + 2, before[2], before[3]]);
}

#[test]
fn a_library_that_is_missing_or_foreign_is_named() {
    let missing = try_verbs("libno-such-library.so").unwrap_err().to_string();
    assert!(missing.contains("libno-such-library.so") && missing.contains("MC_IBVERBS_PATH"));
    let lacks = VerbsError::Lacks {
        library: "libc.so.6".to_owned(),
        function: "ibv_get_device_list".to_owned(),
    };
    assert_eq!(try_verbs("libc.so.6"), Err(lacks));
    assert_eq!(try_verbs("libibverbs.so.1"), Ok(()), "Debian's package is installed");
    for symbol in verbs_symbols() {
        let name = std::ffi::CString::new(symbol).unwrap();
        assert!(!mooncake_verbs_double::symbol(&name).is_null(), "the double has {symbol}");
    }
}
