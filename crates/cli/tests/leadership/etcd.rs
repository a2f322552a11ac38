use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mooncake_client::ErrorCode;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, Master, TTL, get, put, store, until_served};
use crate::followed::{SLACK, a_paused_leader_is_fenced};
use crate::surroundings::Folder;
use crate::warm::a_warm_standby_takes_over;
use crate::way::Way;
use mooncake_testing::{PATIENCE, free_port, http_get};

/// How often a start is tried, since another process may take a free port first.
const ATTEMPTS: usize = 3;

/// An etcd server. Dropping it kills it.
struct Etcd {
    child: Child,
    port: u16,
    peer_port: u16,
    folder: Folder,
}

impl Etcd {
    fn start() -> Etcd {
        (0..ATTEMPTS).find_map(|_| Self::try_to_start()).expect("etcd runs")
    }

    fn try_to_start() -> Option<Etcd> {
        let (folder, [port, peer_port]) = (Folder::new("etcd"), [(); 2].map(|()| free_port()));
        let child = spawn(&folder, port, peer_port);
        let mut etcd = Etcd { child, port, peer_port, folder };
        etcd.is_up().then_some(etcd)
    }

    fn is_up(&mut self) -> bool {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if self.child.try_wait().expect("our child").is_some() {
                return false;
            }
            assert!(begun.elapsed() < PATIENCE, "etcd does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        true
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process runs");
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("our child");
    }

    /// Starts a killed server again, with its data. It listens at once, but answers only after it has elected itself,
    /// one to two seconds later.
    fn start_again(&mut self) {
        self.child = spawn(&self.folder, self.port, self.peer_port);
        assert!(self.is_up(), "its ports are taken");
        let (address, begun) = (format!("127.0.0.1:{}", self.port), Instant::now());
        while !http_get(&address, "/health").contains("true") {
            assert!(begun.elapsed() < PATIENCE, "etcd is not well");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn address(&self) -> String {
        format!("etcd://127.0.0.1:{}", self.port)
    }
}

fn spawn(folder: &Folder, port: u16, peer_port: u16) -> Child {
    let (clients, peers) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let mut command = Command::new("etcd");
    command.arg(format!("--data-dir={}", folder.path().display()));
    command.args(["--name=a", &format!("--initial-cluster=a={peers}")]);
    // When etcd starts, it prolongs all leases by its election timeout.
    command.args(["--heartbeat-interval=20", "--election-timeout=200"]);
    command.arg(format!("--listen-client-urls={clients}"));
    command.arg(format!("--advertise-client-urls={clients}"));
    command.arg(format!("--listen-peer-urls={peers}"));
    command.arg(format!("--initial-advertise-peer-urls={peers}"));
    // Debian's etcd runs on this architecture only if this variable is set.
    if cfg!(target_arch = "aarch64") {
        command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
    }
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.unwrap_or_else(|error| {
        panic!("etcd does not start ({error}); install it: apt-get install etcd-server")
    })
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn etcd_elects_the_leader_and_may_be_away_for_less_than_a_lease() {
    let etcd = Etcd::start();
    let mut cluster = Cluster::at(etcd.address());
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    let store = store(cluster.coordinator());
    assert_eq!(put(&store, "early", 0), Ok(()));

    leader.program.kill();
    let took = until_served(&store, "after");
    // etcd looks for expired leases twice a second.
    assert!(took < TTL + Duration::from_secs(2), "{took:?}");
    assert_eq!(standby.says("/role"), "leader");
    assert_eq!(get(&store, "early", 0), Ok(()));

    etcd.signal(Signal::STOP);
    assert_eq!(put(&store, "without", 0), Ok(()));
    etcd.signal(Signal::CONT);
    assert_eq!(standby.says("/role"), "leader");

    etcd.signal(Signal::STOP);
    standby.wait_until("/ha_status", "suspended");
    assert!(put(&store, "nobody", 0).is_err());
    etcd.signal(Signal::CONT);
    until_served(&store, "again");
    for key in ["early", "without"] {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
}

#[test]
fn a_standby_of_etcd_is_warm_when_it_takes_over() {
    let etcd = Etcd::start();
    a_warm_standby_takes_over(Cluster::at(etcd.address()));
}

#[test]
fn etcd_has_a_paused_leader_replaced_and_it_does_nothing_late() {
    let etcd = Etcd::start();
    a_paused_leader_is_fenced(Cluster::at(etcd.address()));
}

/// Makes etcd unreachable for longer than the lease of the only master. The leader refuses every call meanwhile, and
/// then leads on under the same epoch.
fn is_outlasted(leave: impl FnOnce(&mut Etcd), come_back: impl FnOnce(&mut Etcd)) {
    const LATER: ErrorCode = ErrorCode::UnavailableInCurrentStatus;
    let mut etcd = Etcd::start();
    let mut cluster = Cluster::at(etcd.address());
    let leader = cluster.master();
    leader.wait_until_role("leader");
    cluster.add_node();
    cluster.add_node();
    let keys: Vec<String> = (0..200).map(|number| format!("old-{number}")).collect();
    let writer = cluster.store();
    for key in &keys {
        assert_eq!(put(&writer, key, 0), Ok(()), "{key}");
    }
    let before = leader.says("/leader");
    leave(&mut etcd);
    leader.wait_until("/ha_status", "suspended");
    let health = leader.says("/health");
    assert!(
        health.contains("\"reason\":\"no coordinator since ") && health.contains("etcd"),
        "{health}"
    );
    let begun = Instant::now();
    while begun.elapsed() < TTL * 2 {
        let asked = Instant::now();
        assert_eq!(put(&writer, "new", 0), Err(LATER));
        assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        assert_eq!(writer.remove(&[&keys[0]], true), [Err(LATER)]);
        assert_eq!(get(&writer, &keys[1], 0), Err(LATER), "another may lead by now");
    }
    come_back(&mut etcd);
    let took = until_served(&writer, "again");
    println!("puts {took:?} after etcd is back");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(leader.says("/leader"), before, "it is the same term");
    for key in &keys {
        assert_eq!(get(&writer, key, 0), Ok(()), "{key}");
    }
}

#[test]
fn a_leader_leads_on_after_etcd_stood_still_for_longer_than_the_lease() {
    is_outlasted(|etcd| etcd.signal(Signal::STOP), |etcd| etcd.signal(Signal::CONT));
}

#[test]
fn a_leader_leads_on_after_etcd_was_dead_for_longer_than_the_lease() {
    is_outlasted(Etcd::kill, Etcd::start_again);
}

/// The membership record names a segment that no node lends any more. The new leader cannot know whether a client
/// still reads there, so it waits.
#[test]
fn a_whole_cluster_that_was_killed_takes_its_first_put_two_seconds_after_the_lease() {
    let mut etcd = Etcd::start();
    let mut cluster = Cluster::at(etcd.address());
    let (mut leader, mut standby) = cluster.pair();
    cluster.add_node();
    assert_eq!(put(&cluster.store(), "lost", 0), Ok(()));
    leader.program.kill();
    standby.program.kill();
    cluster.kill_nodes();
    etcd.kill();
    etcd.start_again();
    let begun = Instant::now();
    let masters = [cluster.master(), cluster.master()];
    cluster.add_node();
    let store = cluster.store();
    until_served(&store, "first");
    let took = begun.elapsed();
    println!("the first put took {took:?}");
    assert!(took < TTL + Duration::from_secs(2), "{took:?}");
    assert_eq!(get(&store, "lost", 0), Err(ErrorCode::ObjectNotFound));
    drop(masters);
}

#[test]
fn a_leader_that_alone_is_cut_off_from_etcd_is_replaced_and_confirms_nothing() {
    let etcd = Etcd::start();
    let way = Way::to(etcd.port);
    let mut cluster = Cluster::at(etcd.address());
    let leader = Master::start(&format!("etcd://127.0.0.1:{}", way.port));
    leader.wait_until_role("leader");
    let standby = cluster.master();
    standby.wait_until("/ha_status", "standby");
    cluster.add_node();
    cluster.add_node();
    // This store knows only the address of the old leader.
    let (store, loyal) = (cluster.store(), store(&leader.rpc));
    for key in ["replaced", "removed", "kept"] {
        assert_eq!(put(&store, key, 1), Ok(()));
        assert_eq!(get(&loyal, key, 1), Ok(()));
    }
    let begun = Instant::now();
    way.cut();
    standby.wait_until_role("leader");
    until_served(&store, "after");
    let took = begun.elapsed();
    println!("replaced after {took:?}");
    // etcd looks for expired leases twice a second.
    assert!(took < TTL + 4 * SLACK, "{took:?}");
    assert_eq!(store.remove(&["replaced", "removed"], true), [Ok(()), Ok(())]);
    assert_eq!(put(&store, "replaced", 2), Ok(()));
    for _ in 0..50 {
        assert!(put(&loyal, "late", 3).is_err());
        assert!(get(&loyal, "removed", 1).is_err());
        // A stale route may still lead to the key. If the get succeeds, its bytes must be of version 2.
        let _ = get(&loyal, "replaced", 2);
    }
    assert_eq!(get(&store, "late", 3), Err(ErrorCode::ObjectNotFound));
    assert_eq!(get(&store, "kept", 1), Ok(()));
    way.mend();
    leader.wait_until("/ha_status", "standby");
}
