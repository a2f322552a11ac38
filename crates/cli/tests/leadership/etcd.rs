use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Cluster, TTL, get, put, store, until_served};
use crate::followed::a_paused_leader_is_fenced;
use crate::surroundings::Folder;
use mooncake_testing::{PATIENCE, free_port};

/// Another process may take a free port first; then the start is tried again.
const ATTEMPTS: usize = 3;

/// An etcd server. Dropping it kills it.
struct Etcd {
    child: Child,
    port: u16,
    _folder: Folder,
}

impl Etcd {
    fn start() -> Etcd {
        (0..ATTEMPTS).find_map(|_| Self::try_to_start()).expect("etcd runs")
    }

    fn try_to_start() -> Option<Etcd> {
        let (folder, [client, peer]) = (Folder::new("etcd"), [(); 2].map(|()| free_port()));
        let (clients, peers) =
            (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let mut command = Command::new("etcd");
        command.arg(format!("--data-dir={}", folder.path().display()));
        command.args(["--name=a", &format!("--initial-cluster=a={peers}")]);
        command.arg(format!("--listen-client-urls={clients}"));
        command.arg(format!("--advertise-client-urls={clients}"));
        command.arg(format!("--listen-peer-urls={peers}"));
        command.arg(format!("--initial-advertise-peer-urls={peers}"));
        // The packaged version wants to be told that this is meant.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| {
            panic!("etcd does not start ({error}); install it: apt-get install etcd-server")
        });
        let mut etcd = Etcd { child, port: client, _folder: folder };
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
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn etcd_elects_the_leader_and_may_be_away_for_less_than_a_lease() {
    let etcd = Etcd::start();
    let mut cluster = Cluster::at(format!("etcd://127.0.0.1:{}", etcd.port));
    let (mut leader, standby) = cluster.pair();
    cluster.add_node();
    let store = store(cluster.coordinator());
    assert_eq!(put(&store, "early", 0), Ok(()));

    leader.program.kill();
    let took = until_served(&store, "after");
    // etcd looks for leases that ran out every half second.
    assert!(took < TTL + Duration::from_secs(2), "{took:?}");
    assert_eq!(standby.says("/role"), "leader");
    assert_eq!(get(&store, "early", 0), Ok(()));

    etcd.signal(Signal::STOP);
    assert_eq!(put(&store, "without", 0), Ok(()));
    etcd.signal(Signal::CONT);
    assert_eq!(standby.says("/role"), "leader");

    etcd.signal(Signal::STOP);
    standby.wait_until_role("standby");
    assert!(put(&store, "nobody", 0).is_err());
    etcd.signal(Signal::CONT);
    until_served(&store, "again");
    for key in ["early", "without"] {
        assert_eq!(get(&store, key, 0), Ok(()), "{key}");
    }
}

#[test]
fn etcd_has_a_paused_leader_replaced_and_it_does_nothing_late() {
    let etcd = Etcd::start();
    a_paused_leader_is_fenced(Cluster::at(format!("etcd://127.0.0.1:{}", etcd.port)));
}
