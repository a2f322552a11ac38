//! Nodes that are reached by several NICs, over the double of libibverbs.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mooncake_fabric::testing::use_verbs;
use mooncake_fabric::{Domain, Limits, VerbsOptions};
use mooncake_memory::Buffer;
use mooncake_types::ErrorCode;
use mooncake_verbs_double::control::{self, FakeGid, FakeNic};
use mooncake_wire::{Begun, Kind, decode_begun, decode_results, encode_begin, encode_complete};

use super::far::Sleeper;
use super::rig::{
    EPOCH, Node, Object, all_ok, read_all, server_config, tcp_config, wait_until, write_all,
};
use crate::{FarLender, Paths, ServerConfig};

const MIB: u64 = 1 << 20;

fn device(nics: &[FakeNic]) -> Arc<Domain> {
    use_verbs(mooncake_verbs_double::symbol);
    control::set_nics(nics);
    Domain::open_verbs(&VerbsOptions::default(), Limits::default()).unwrap()
}

fn node(device: &Arc<Domain>) -> Node {
    let far = Some(Arc::new(FarLender::open(device).unwrap()));
    let config = ServerConfig { far, local_socket: false, ..server_config() };
    Node::with_config(1, 64 * MIB, config)
}

fn by(device: &Arc<Domain>, ways: &str) -> Paths {
    Paths::new(None, tcp_config(), ways.parse().unwrap()).with_fabric(Some(Arc::clone(device)))
}

#[test]
fn a_nic_that_fails_while_a_node_is_used_is_left_out_and_taken_back() {
    let device = device(&control::usual_nics(2));
    let (node, transport) = (node(&device), by(&device, "fabric"));
    let object = |counter| Object::at(&node, 0, 20 * MIB, counter);
    assert_eq!(write_all(&transport, &[object(1)]), all_ok(1));
    assert_eq!(read_all(&transport, &[object(1)]), all_ok(1));
    let is_up = |nic: usize| device.nics()[nic].is_up;
    for (counter, failing) in [(2, "double0"), (3, "double1")] {
        let nic = counter as usize - 2;
        control::fail_nic_after(failing, 20);
        assert_eq!(write_all(&transport, &[object(counter)]), all_ok(1));
        wait_until("its failure is noticed", || !is_up(nic));
        assert_eq!(read_all(&transport, &[object(counter)]), all_ok(1));
        let carried = control::carried(failing);
        assert_eq!(write_all(&transport, &[object(counter)]), all_ok(1));
        assert_eq!(control::carried(failing), carried, "it is left out");

        for fails_while_it_reads in [true, false] {
            let carried = control::carried(failing);
            control::set_port(failing, true);
            wait_until("it carries bytes again", || {
                assert_eq!(read_all(&transport, &[object(counter)]), all_ok(1));
                control::carried(failing) > carried
            });
            if fails_while_it_reads {
                control::fail_nic_after(failing, 20);
                assert_eq!(read_all(&transport, &[object(counter)]), all_ok(1));
                wait_until("its failure is noticed", || !is_up(nic));
                assert_eq!(read_all(&transport, &[object(counter)]), all_ok(1));
            }
        }
    }
    assert_eq!(node.host.reads(), 0, "no message carried bytes");
}

#[test]
fn without_any_nic_that_works_messages_carry_the_bytes_until_one_does() {
    let device = device(&control::usual_nics(2));
    let (node, transport) = (node(&device), by(&device, "fabric,tcp"));
    let object = [Object::at(&node, 0, MIB, 1)];
    assert_eq!(write_all(&transport, &object), all_ok(1));
    for nic in ["double0", "double1"] {
        control::set_port(nic, false);
    }
    wait_until("their failure is noticed", || device.nics().iter().all(|nic| !nic.is_up));
    assert_eq!(read_all(&transport, &object), all_ok(1));
    assert!(node.host.reads() > 0);
    control::set_port("double1", true);
    wait_until("one works", || device.nics()[1].is_up);
    let other = by(&device, "fabric");
    let by_message = node.host.reads();
    assert_eq!(read_all(&other, &object), all_ok(1));
    assert_eq!(node.host.reads(), by_message);
}

/// A way has broken, and another has moved the same bytes. What the broken one had under way may come later, so the node
/// closes the ends of the writer before it completes the write.
#[test]
fn a_writer_that_may_be_late_is_shut_out_before_its_write_completes() {
    let device = device(&control::usual_nics(2));
    let node = node(&device);
    for may_be_late in [false, true] {
        let object = Object::at(&node, 0, MIB, 1 + u64::from(may_be_late));
        let mut writer = Sleeper::begin(&device, &object);
        assert!(writer.write());
        let queue_pairs = control::objects()[3];
        let mut connection = writer.connection.take().unwrap();
        let complete = |out: &mut Vec<u8>, id| encode_complete(out, id, &[Ok(())], may_be_late);
        let body = connection.call(complete, Kind::CompleteReply).unwrap();
        assert_eq!(decode_results(&body).unwrap(), [Ok(())]);
        let closed = if may_be_late { 2 } else { 0 };
        assert_eq!(control::objects()[3], queue_pairs - closed);

        let next = Object::at(&node, 2 * MIB, MIB, 5 + u64::from(may_be_late));
        let source = Buffer::from_vec(next.bytes());
        let range = next.write_op(source.raw().into()).range;
        let begin = |out: &mut Vec<u8>, id| encode_begin(out, id, EPOCH, &[range]);
        let body = connection.call(begin, Kind::Begun).unwrap();
        let Begun { ranges, .. } = decode_begun(&body).unwrap();
        let refused = ranges[0] == Err(ErrorCode::NoAvailableHandle);
        assert_eq!(refused, may_be_late, "it has no ends any more");
    }
}

/// The port is on two networks, of which the node is on the second: the address by which it is known tells.
#[test]
fn ends_have_the_gid_of_the_interface_by_which_the_node_is_known() {
    let usual = control::usual_nic();
    let reached = usual.gids.last().unwrap().address;
    let gid = |address: Ipv6Addr, interface| FakeGid { kind: 2, address, interface };
    let elsewhere = gid(Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped(), 2);
    let here = [gid(reached, 9), gid(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 9)];
    for (gids, is_reached) in [
        (vec![elsewhere, here[0], here[1]], true),
        // Nothing tells that the second is better than the first.
        (vec![elsewhere, here[0]], false),
    ] {
        let device = device(&[FakeNic { gids, ..usual.clone() }]);
        let node = node(&device);
        let object = [Object::at(&node, 0, MIB, 1)];
        let written = write_all(&by(&device, "fabric"), &object);
        assert_eq!(written == all_ok(1), is_reached, "{written:?}");
    }
}
