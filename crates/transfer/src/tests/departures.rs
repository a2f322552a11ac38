//! Peers that leave: their connections and mappings are closed, even if no call follows.

use std::time::Duration;

use super::rig::{Node, Object, all_ok, by, read_all, wait_until, write_all};

#[test]
fn nothing_stays_open_to_peers_that_were_read_once_and_have_left() {
    for ways in ["tcp", "shm,tcp", "process_vm,tcp"] {
        let transport = by(ways);
        for round in 1..=3 {
            let nodes: Vec<Node> = (1..=10).map(|id| Node::start(id, 1 << 20)).collect();
            let objects: Vec<Object> =
                nodes.iter().map(|node| Object::at(node, 0, 1000, round)).collect();
            assert_eq!(write_all(&transport, &objects), all_ok(10));
            assert_eq!(read_all(&transport, &objects), all_ok(10));
            assert!(transport.remembered() >= 10, "{}", transport.remembered());
            drop(nodes);
            wait_until("all are forgotten", || transport.remembered() == 0);
        }
    }
}

#[test]
fn a_connection_that_nobody_used_for_a_minute_is_closed_and_made_again() {
    let (node, transport) = (Node::start(1, 1 << 20), by("tcp"));
    let object = [Object::at(&node, 0, 1000, 1)];
    assert_eq!(write_all(&transport, &object), all_ok(1));
    transport.tidy_after(Duration::from_secs(50));
    assert_eq!(transport.remembered(), 1);
    transport.tidy_after(Duration::from_secs(61));
    assert_eq!(transport.remembered(), 0);
    assert_eq!(read_all(&transport, &object), all_ok(1));
    assert_eq!(transport.remembered(), 1);
}
