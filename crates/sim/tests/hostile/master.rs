use mooncake_meta::{Config, Meta};
use mooncake_types::{
    ClientId, Epoch, Medium, MountSegment, PutEnd, PutItem, PutMode, PutStart, ReplicateConfig,
    Reply, Request, SegmentId, Tick,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::frame::{Frame, decode, split};
use crate::seed::runner;
use crate::strategy::request;
use crate::told::survive;

const LEN: u64 = 1 << 20;

/// Some client. The handshake refuses the operator's id.
fn sender() -> impl Strategy<Value = ClientId> {
    (1..4_u128).prop_map(ClientId)
}

/// A master under an epoch that random versions often have, with three segments and an object.
fn master() -> Meta {
    let mut meta = Meta::new(Config::default(), Epoch(2));
    for number in 0..3 {
        let name = format!("node-{number}:1");
        let mount = MountSegment {
            id: SegmentId(number),
            name: &name,
            endpoint: &name,
            len: LEN,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: if number == 2 { Medium::Disk } else { Medium::Memory },
            domains: &[],
            seal_key: None,
        };
        meta.handle(Tick(1), ClientId(number + 1), &Request::MountSegment(mount));
    }
    let config = ReplicateConfig { replica_num: 2, ..ReplicateConfig::default() };
    let puts = vec![PutItem::new("a", 1_000)];
    let start = Request::PutStart(PutStart { puts, config, mode: PutMode::Insert });
    let Reply::Granted { results, .. } = meta.handle(Tick(2), ClientId(1), &start) else {
        panic!("there is room")
    };
    let version = results[0].as_ref().expect("there is room").version;
    let end = PutEnd { key: "a", version, failed_replicas: 0, held_replicas: 0 };
    meta.handle(Tick(3), ClientId(1), &Request::PutEnd { puts: vec![end] });
    meta
}

#[test]
fn no_request_off_a_socket_ends_the_master() {
    let requests = vec((sender(), request(), 0..50_000_u64, any::<bool>()), 1..60);
    runner(3_000)
        .run(&requests, |requests| {
            let (mut meta, mut now) = (master(), Tick(10));
            for (from, request, after_ms, leaves) in requests {
                now = now.after_ms(after_ms);
                let bytes = Frame::Request(request).encode(1);
                let (header, body) = split(&bytes);
                // What the decoder refuses never gets to the master.
                let _ = decode(header.kind, body, |frame| match frame {
                    Frame::Request(request) => drop(meta.handle(now, from, &request)),
                    other => panic!("{other:?}"),
                });
                if leaves {
                    meta.handle_disconnect(now, from);
                }
                while meta.poll_timeout().is_some_and(|due| due <= now) {
                    meta.handle_timeout(now);
                }
            }
            prop_assert_eq!(meta.check(), Ok(()));
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn nothing_that_members_tell_a_new_leader_ends_it() {
    runner(2_000)
        .run(&vec(any::<u8>(), 0..600), |bytes| {
            survive(&bytes);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
