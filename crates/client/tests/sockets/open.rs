use std::net::TcpListener;
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, HotCacheConfig, OffloadConfig, OpenError, Store, StoreConfig};

use crate::master::{Master, TOKEN};
use crate::rig::{config, open};

fn error_of(config: StoreConfig) -> OpenError {
    Store::open(config).expect_err("it does not open")
}

#[test]
fn hostnames_are_of_the_range_and_never_shared() {
    let master = Master::start();
    let stores = [open(&master, 1 << 20), open(&master, 0), open(&master, 1 << 20)];
    let mut ports: Vec<u16> = stores
        .iter()
        .map(|store| {
            let port = store.hostname().strip_prefix("localhost:").expect("the host as given");
            port.parse().expect("a port")
        })
        .collect();
    assert!(ports.iter().all(|port| (12_300..=14_300).contains(port)), "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 3);
}

#[test]
fn a_node_without_a_file_has_its_name_again_when_it_is_started_again_as_it_was() {
    let master = Master::start();
    let (node, beside) = (open(&master, 1 << 20), open(&master, 1 << 20));
    let name = node.hostname().to_owned();
    assert_ne!(beside.hostname(), name);
    drop(node);
    assert_eq!(open(&master, 1 << 20).hostname(), name);
}

#[test]
fn a_host_that_means_all_addresses_is_known_by_the_one_towards_the_master() {
    let master = Master::start();
    for host in ["", "0.0.0.0"] {
        let config = StoreConfig { local_hostname: host.to_owned(), ..config(&master, 1 << 20) };
        let store = Store::open(config).expect("the store opens");
        assert!(store.hostname().starts_with("127.0.0.1:"), "{}", store.hostname());
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let master = Master::start();
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = holder.local_addr().expect("it is bound");
    for segment_bytes in [0, 1 << 20] {
        let taken = StoreConfig {
            local_hostname: format!("localhost:{}", address.port()),
            ..config(&master, segment_bytes)
        };
        let expected = OpenError::PortTaken { port: address.port(), address };
        assert_eq!(error_of(taken), expected);
        let range = StoreConfig {
            ports: address.port()..=address.port(),
            ..config(&master, segment_bytes)
        };
        let (first, last) = (address.port(), address.port());
        assert_eq!(error_of(range), OpenError::AllPortsTaken { first, last });
    }
    master.with_meta(|meta| assert_eq!(meta.segments().len(), 0));
}

#[test]
fn a_master_that_is_not_there_is_given_up_in_time() {
    let master = Master::start();
    let config =
        StoreConfig { rpc_connect_timeout: Duration::from_millis(400), ..config(&master, 1 << 20) };
    drop(master);
    let started = Instant::now();
    let error = error_of(config.clone());
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    let OpenError::MasterUnreachable { master, waited_ms, reason } = &error else {
        panic!("{error}")
    };
    assert_eq!(*master, config.master);
    assert!((400..2000).contains(waited_ms), "{waited_ms}");
    assert!(reason.contains("refused"), "{reason}");
    assert_eq!(error.code(), ErrorCode::RpcFail);
}

#[test]
fn a_port_where_somebody_else_answers_is_not_a_master() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = error_of(StoreConfig {
        master: address.to_string(),
        rpc_connect_timeout: Duration::from_millis(300),
        ..StoreConfig::default()
    });
    let OpenError::MasterUnreachable { reason, .. } = &error else { panic!("{error}") };
    assert!(
        reason.contains("it speaks HTTP; the port that serves the pool is another"),
        "{reason}"
    );
}

#[test]
fn a_master_of_another_cluster_or_token_refuses_at_once() {
    let master = Master::start();
    let started = Instant::now();
    let other = StoreConfig { cluster_id: "other".to_owned(), ..config(&master, 1 << 20) };
    let error = error_of(other);
    let OpenError::Refused { code: ErrorCode::InvalidParams, message, .. } = &error else {
        panic!("{error}")
    };
    assert!(message.contains("other") && message.contains("test cluster"), "{message}");
    let wrong = StoreConfig { auth_token: "guess".into(), ..config(&master, 1 << 20) };
    let error = error_of(wrong);
    let OpenError::Refused { code: ErrorCode::IllegalClient, message, .. } = &error else {
        panic!("{error}")
    };
    assert!(!message.contains(TOKEN) && !message.contains("guess"), "{message}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let plain = StoreConfig::default;
    for (config, text) in [
        (StoreConfig { segment_bytes: 1023, ..plain() }, "a segment of 1023 bytes"),
        (StoreConfig { segment_bytes: u64::MAX, ..plain() }, "bytes cannot be lent"),
        (StoreConfig { local_buffer_bytes: 1, ..plain() }, "a local buffer of 1 bytes"),
        (StoreConfig { local_buffer_bytes: (1 << 40) + 1, ..plain() }, "a local buffer of"),
        (StoreConfig { local_hostname: "a b".to_owned(), ..plain() }, "the local hostname \"a b\""),
        (StoreConfig { local_hostname: "h:99999".to_owned(), ..plain() }, "a number from 1"),
        (StoreConfig { local_hostname: "h".repeat(600), ..plain() }, "has 606 bytes"),
        (StoreConfig { cluster_id: "c".repeat(513), ..plain() }, "the cluster id has 513 bytes"),
        (StoreConfig { master: "nowhere".to_owned(), ..plain() }, "it names no port"),
        (StoreConfig { master: String::new(), ..plain() }, "it is empty"),
        (StoreConfig { master: "local://".to_owned(), ..plain() }, "no pool without a master"),
        (StoreConfig { master: "@master".to_owned(), ..plain() }, "only their own host reaches"),
        (StoreConfig { ports: 0..=5, ..plain() }, "no port to choose from in 0..=5"),
        (StoreConfig { ports: RANGE_BACKWARDS, ..plain() }, "no port to choose from in 9..=8"),
    ] {
        let error = error_of(config);
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!(error.code(), ErrorCode::InvalidParams, "{error}");
    }
}

/// A range of ports whose ends are swapped.
#[allow(clippy::reversed_empty_ranges, reason = "it is what is tested")]
const RANGE_BACKWARDS: std::ops::RangeInclusive<u16> = 9..=8;

#[test]
fn a_segment_that_no_machine_has_room_for_is_named() {
    let master = Master::start();
    let bytes = 1 << 44;
    match Store::open(config(&master, bytes)) {
        Err(OpenError::Map { bytes: named, .. }) => assert_eq!(named, bytes),
        // A kernel that overcommits memory maps any segment.
        Ok(store) => store.close(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_host_that_does_not_resolve_is_an_error_for_those_who_serve() {
    let master = Master::start();
    let nowhere = |segment_bytes| StoreConfig {
        local_hostname: "no-such-host.invalid".to_owned(),
        ..config(&master, segment_bytes)
    };
    let error = error_of(nowhere(1 << 20));
    let OpenError::HostUnknown { host, .. } = &error else { panic!("{error}") };
    assert_eq!(host, "no-such-host.invalid");
    let client = Store::open(nowhere(0)).expect("a name that nobody connects to may be any");
    assert!(client.hostname().starts_with("no-such-host.invalid:"), "{}", client.hostname());
}

#[test]
fn a_store_that_fails_to_open_lends_nothing_and_leaves_its_disk_to_the_next_one() {
    let master = Master::start();
    let path = std::env::temp_dir().join(format!("mooncake-half-open-{}", std::process::id()));
    let offload = OffloadConfig {
        is_enabled: true,
        path: path.clone(),
        most_bytes: 64 << 20,
        ..OffloadConfig::default()
    };
    let good = StoreConfig { offload, ..config(&master, 1 << 20) };
    let folder = Some("/nowhere".into());
    let hot_cache = HotCacheConfig { bytes: 1 << 20, folder, ..HotCacheConfig::default() };
    let error = error_of(StoreConfig { hot_cache, ..good.clone() });
    assert!(matches!(error, OpenError::HotCache { .. }), "{error}");
    master.with_meta(|meta| assert_eq!(meta.segments().len(), 0));
    let store = Store::open(good).expect("the disk is free again");
    let disks: Vec<_> = std::fs::read_dir(&path).expect("it is there").flatten().collect();
    assert_eq!(disks.len(), 1, "{disks:?}");
    drop(store);
    std::fs::remove_dir_all(&path).expect("it is there");
}
