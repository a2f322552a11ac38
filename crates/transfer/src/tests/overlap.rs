//! Operations of one call that take different ways are under way at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{Node, Object, all_ok, read_all, tcp_config, wait_until, write_all};
use crate::{LocalTransport, Paths, SegmentHost, ServerConfig};

#[test]
fn a_node_elsewhere_works_while_this_process_and_its_neighbours_are_read() {
    let elsewhere = ServerConfig { local_socket: false, ..super::rig::server_config() };
    let (own, near) = (Node::start(1, 1 << 20), Node::start(2, 1 << 20));
    let far = Node::with_config(3, 1 << 20, elsewhere);
    let host = Arc::clone(&own.host) as Arc<dyn SegmentHost>;
    let ways = "shm,tcp".parse().unwrap();
    let paths = Paths::new(Some(LocalTransport::new(host)), tcp_config(), ways);
    for beside in [&own, &near] {
        let objects = [Object::at(beside, 0, 5000, 1), Object::at(&far, 0, 300_000, 1)];
        assert_eq!(write_all(&paths, &objects), all_ok(2));
        let is_asked = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&is_asked);
        far.host.on_read(move |_, _| asked.store(true, Ordering::SeqCst));
        beside.host.on_read(move |_, _| {
            wait_until("the other node was asked", || is_asked.load(Ordering::SeqCst));
        });
        assert_eq!(read_all(&paths, &objects), all_ok(2));
    }
}
