//! Node, reader and writer as separate processes. Some are killed, or belong to another user.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::Buffer;

use super::rig::{Node, Object, all_ok, by, read_all, version, wait_until, write_all};
use crate::testing::pattern;
use crate::{Distance, TransferError, View, ViewOp};

const ROLE: &str = "MOONCAKE_TEST_ROLE";
const LEN: u64 = 3 << 20;

/// Another process of this test program in another role, as another user if one is given. Killed when dropped.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    fn start(role: &str, user: Option<u32>) -> Process {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(program);
        command.args(["--exact", "tests::near_processes::role", "--ignored", "--nocapture"]);
        command.env(ROLE, role).current_dir("/").stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Process { child, lines }
    }

    /// The text behind this word on the next line that the process prints.
    fn says(&mut self, word: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before it said {word}");
            // The test harness may have begun the line.
            if let Some((_, rest)) = line.split_once(&format!("{word}=")) {
                return rest.trim().to_owned();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn object(endpoint: &Arc<str>, counter: u64) -> Object {
    Object {
        endpoint: Arc::clone(endpoint),
        segment: mooncake_types::SegmentId(1),
        offset: 0,
        len: LEN,
        key: "key".to_owned(),
        version: version(counter),
    }
}

/// A view of an object at a node.
fn see(endpoint: &Arc<str>, counter: u64) -> View {
    let object = object(endpoint, counter);
    let range = object.read_op(0, Buffer::zeroed(LEN as usize).raw().into()).range;
    let endpoint = Arc::clone(endpoint);
    by("shm").show(&[ViewOp { endpoint, range }]).remove(0).expect("it is there to be seen")
}

fn is(view: &View, object: &Object) -> bool {
    view.raw().to_vec() == object.bytes()
}

/// The code of the other processes.
#[test]
#[ignore = "it is what the other processes of these tests do"]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, endpoint) = role.split_once(' ').unwrap_or((&role, ""));
    let endpoint: Arc<str> = endpoint.into();
    match role {
        "node" => {
            let node = Node::start(1, 16 << 20);
            println!("endpoint={}", node.endpoint);
            std::thread::sleep(Duration::from_secs(60));
        }
        "writer" => {
            let transport = by("shm");
            println!("begins=");
            for counter in 1.. {
                let results = write_all(&transport, &[object(&endpoint, counter)]);
                println!("wrote={counter} {results:?}");
            }
        }
        "viewer" => {
            let (view, object) = (see(&endpoint, 1), object(&endpoint, 1));
            println!("sees={}", is(&view, &object));
            std::thread::sleep(Duration::from_secs(60));
        }
        "stranger" => {
            let object = [object(&endpoint, 1)];
            println!("distance={:?}", by("shm").distance(&endpoint));
            println!("shm={:?}", read_all(&by("shm"), &object));
            println!("default={:?}", read_all(&by("shm,process_vm,tcp"), &object));
        }
        other => panic!("there is no role {other}"),
    }
}

#[test]
fn bytes_of_a_node_that_was_killed_are_not_read_for_long() {
    let mut node = Process::start("node", None);
    let endpoint: Arc<str> = node.says("endpoint").into();
    for ways in ["shm", "process_vm"] {
        let (transport, object) = (by(ways), [object(&endpoint, 1)]);
        if ways == "shm" {
            assert_eq!(write_all(&transport, &object), all_ok(1));
        }
        assert_eq!(read_all(&transport, &object), all_ok(1), "{ways}");
        assert!(matches!(transport.distance(&endpoint), Distance::Near(_)));
    }
    let (transport, object) = (by("shm,tcp"), [object(&endpoint, 1)]);
    assert_eq!(read_all(&transport, &object), all_ok(1));
    let pid = node.child.id();
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps().contains("mooncake-segment"), "{pid}");
    drop(node);
    let killed = Instant::now();
    // All bytes that are read meanwhile are right; `read_all` compares them.
    wait_until("the node is missed", || {
        matches!(
            read_all(&transport, &object)[..],
            [Err(TransferError::Unreachable { .. } | TransferError::Deserted { .. })]
        )
    });
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
}

/// Writers are killed at any point. Afterwards each readable version is whole, and one writer wrote it.
#[test]
fn writers_that_are_killed_leave_whole_versions_or_none() {
    let node = Node::start(1, 16 << 20);
    let transport = by("shm");
    for round in 0..6_u32 {
        let role = format!("writer {}", node.endpoint);
        let mut writer = Process::start(&role, None);
        writer.says("begins");
        let pause = Duration::from_micros(u64::from(round) * 1700 + 300);
        std::thread::park_timeout(pause);
        drop(writer);
        wait_until("no writer is left", || node.host.writers() == 0);
        let region = node.host.region(node.segment).unwrap();
        for (offset, found) in node.host.entries(node.segment) {
            let expected = pattern("key", found, 0, LEN as usize);
            let bytes = region.slice(offset, LEN).unwrap().to_vec();
            assert!(bytes == expected, "round {round}: {found:?} is torn");
            let held = Object { version: found, ..object(&node.endpoint, 0) };
            assert_eq!(read_all(&transport, &[held]), all_ok(1));
        }
        node.host.forget(node.segment);
    }
}

/// Another user's process is refused, with and without TCP as a way out. Needs a user that may switch to other users;
/// otherwise it checks nothing.
#[test]
fn another_user_does_not_get_at_the_memory() {
    if mooncake_memory::own_uid() != 0 {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let node = Node::start(1, 16 << 20);
    assert_eq!(write_all(&by("shm"), &[object(&node.endpoint, 1)]), all_ok(1));
    let mut stranger = Process::start(&format!("stranger {}", node.endpoint), Some(65_534));
    assert_eq!(
        stranger.says("distance"),
        r#"NotLetIn("memory is shared between processes of one user only: this side is user 65534, the other 0")"#
    );
    assert!(stranger.says("shm").contains("only these transports are allowed: shm"));
    assert_eq!(stranger.says("default"), "[Ok(())]");
    assert_eq!(node.host.reads(), 1, "it came by TCP");
}

#[test]
fn the_place_of_what_a_killed_process_looked_at_is_free() {
    let node = Node::start(1, 16 << 20);
    for counter in (1..10).step_by(2) {
        let [old, new] = [object(&node.endpoint, 1), object(&node.endpoint, counter + 1)];
        node.host.forget(node.segment);
        assert_eq!(write_all(&by("shm"), std::slice::from_ref(&old)), all_ok(1));
        let mut viewer = Process::start(&format!("viewer {}", node.endpoint), None);
        assert_eq!(viewer.says("sees"), "true");
        assert_eq!(node.host.pins(), 1);
        drop(viewer);
        assert_eq!(write_all(&by("shm"), &[new]), all_ok(1));
        assert_eq!(node.host.pins(), 0);
    }
}

#[test]
fn what_lay_at_a_killed_node_is_seen_on() {
    let mut node = Process::start("node", None);
    let endpoint: Arc<str> = node.says("endpoint").into();
    let object = object(&endpoint, 1);
    assert_eq!(write_all(&by("shm"), std::slice::from_ref(&object)), all_ok(1));
    let views = [see(&endpoint, 1), see(&endpoint, 1)];
    drop(node);
    assert!(views.iter().all(|view| is(view, &object)));
    wait_until("they are detached", || views.iter().all(View::is_detached));
    assert!(views.iter().all(|view| is(view, &object)));
}
