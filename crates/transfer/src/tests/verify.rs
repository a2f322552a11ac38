//! Reads that check what came without its checksums: by shared memory, one-sided, from own segments.

use std::sync::Arc;

use mooncake_memory::Buffer;

use super::far::Net;
use super::rig::{Node, Object, all_ok, by, read_all, tcp, tcp_config, write_all};
use crate::{LocalTransport, Paths, SegmentHost, Source, TcpConfig, TransferError, Transport};

const LEN: u64 = 700_000;

fn verifying() -> TcpConfig {
    TcpConfig { verify_reads: true, ..tcp_config() }
}

/// An object whose checksums the node knows, since they came with it.
fn put(node: &Node, offset: u64) -> Object {
    let object = Object::at(node, offset, LEN, 1);
    assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), all_ok(1));
    object
}

/// Changes one bit of an object where it lies.
fn flip(node: &Node, object: &Object) {
    let region = node.host.region(node.segment).expect("it is lent");
    let byte = region.slice(object.offset + LEN / 2, 1).expect("within the segment");
    let mut held = [0];
    byte.read_into(&mut held);
    byte.write_from(&[held[0] ^ 4]);
}

fn sources(paths: &Paths, object: &Object) -> Vec<Result<Source, TransferError>> {
    let target = Buffer::zeroed(LEN as usize);
    paths.read_from(&[object.read_op(0, target.raw().into())])
}

#[test]
fn a_flipped_bit_is_found_by_each_way_that_checks() {
    let node = Node::start(1, 4 << 20);
    let object = put(&node, 0);
    let ways = ["shm", "process_vm", "tcp"].map(|ways| {
        let paths = Paths::new(None, verifying(), ways.parse().expect("ways"));
        let from = if ways == "tcp" { Source::Tcp } else { Source::Host };
        assert_eq!(sources(&paths, &object), [Ok(from)], "{ways}");
        paths
    });
    let asked = node.host.reads();
    assert_eq!(sources(&ways[0], &object), [Ok(Source::Host)]);
    assert_eq!(node.host.reads(), asked, "shared memory is read without a question");
    let host = Arc::clone(&node.host) as Arc<dyn SegmentHost>;
    let own = LocalTransport::new(host).verifying(true);
    assert_eq!(read_all(&own, std::slice::from_ref(&object)), all_ok(1));
    flip(&node, &object);
    let corrupt = TransferError::Corrupt { endpoint: Arc::clone(&object.endpoint) };
    for paths in &ways {
        let found = sources(paths, &object).remove(0);
        // Over a local socket the endpoint is that of the socket.
        assert!(matches!(found, Err(TransferError::Corrupt { .. })), "{found:?}");
    }
    assert_eq!(read_all(&own, std::slice::from_ref(&object)), [Err(corrupt)]);
    assert_eq!(sources(&by("shm"), &object), [Ok(Source::Host)], "without, nobody looks");
}

#[test]
fn what_has_no_digest_and_parts_are_read_by_message() {
    let node = Node::start(1, 4 << 20);
    let object = put(&node, 0);
    let near = Paths::new(None, verifying(), "shm".parse().expect("a way"));
    let unknown = Object::at(&node, 1 << 20, LEN, 2);
    assert_eq!(write_all(&by("shm"), std::slice::from_ref(&unknown)), all_ok(1));
    let asked = node.host.reads();
    assert_eq!(read_all(&near, &[unknown]), all_ok(1));
    let target = Buffer::zeroed(1000);
    assert_eq!(near.read(&[object.read_op(500, target.raw().into())]), all_ok(1));
    assert_eq!(node.host.reads(), asked + 2);
}

#[test]
fn a_flipped_bit_is_found_one_sided() {
    for net in Net::ALL {
        let node = net.lender(1, 4 << 20);
        let object = put(&node, 0);
        let checking = Paths::new(None, verifying(), "fabric".parse().expect("a way"));
        let checking = checking.with_fabric(Some(net.device()));
        assert_eq!(sources(&checking, &object), [Ok(Source::Fabric)]);
        let asked = node.host.reads();
        flip(&node, &object);
        let endpoint = Arc::clone(&object.endpoint);
        assert_eq!(sources(&checking, &object), [Err(TransferError::Corrupt { endpoint })]);
        assert_eq!(sources(&net.far_by("fabric"), &object), [Ok(Source::Fabric)]);
        assert_eq!(node.host.reads(), asked);
    }
}
