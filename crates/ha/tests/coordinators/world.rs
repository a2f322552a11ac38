use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_ha::{Campaign, Candidate, Coordinator, Ended, Leadership, Options, connect};

/// The length of the leases, unless a test says otherwise.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// The cluster of the tests.
pub(crate) const CLUSTER: &str = "of-the-tests";

/// A place that coordinators of one kind connect to, for one test alone.
pub(crate) trait World: Sync {
    /// Another coordinator at this place, as another process would have it.
    fn connect_to(&self, cluster_id: &str) -> Coordinator;

    /// Writes any bytes where the leader's name is kept, and keeps them there for a while.
    fn spoil_leader(&self, bytes: &[u8]);

    /// Writes any bytes where the record is kept.
    fn spoil_record(&self, bytes: &[u8]);

    /// Address and options for another process.
    fn reach(&self) -> (String, Options) {
        panic!("no other process reaches it");
    }

    /// How long the place lets a leader that died have its lease, beyond `TTL`.
    fn slack(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn connect(&self) -> Coordinator {
        self.connect_to(CLUSTER)
    }
}

/// The options of the tests.
pub(crate) fn options(cluster_id: &str) -> Options {
    Options { ttl: TTL, ..Options::new(cluster_id) }
}

/// Connects by an address.
pub(crate) fn at(address: &str, cluster_id: &str) -> Coordinator {
    connect(address, &options(cluster_id)).expect("an address")
}

pub(crate) fn candidate(name: &str) -> Candidate {
    Candidate { address: format!("{name}:50051") }
}

/// Leads, or fails the test.
pub(crate) fn lead(coordinator: &Coordinator, name: &str, within: Duration) -> Leadership {
    match coordinator.campaign(&candidate(name), within) {
        Ok(Campaign::Leads(leadership)) => leadership,
        other => panic!("{name} does not lead: {other:?}"),
    }
}

/// Leads as soon as the leader of before does no more.
pub(crate) fn follow(coordinator: &Coordinator, name: &str, within: Duration) -> Leadership {
    super::wait::wait_for("to lead", within, || {
        match coordinator.campaign(&candidate(name), Duration::from_millis(50)) {
            Ok(Campaign::Leads(leadership)) => Some(leadership),
            Ok(Campaign::Follows(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        }
    })
}

/// A folder of its own, removed with the value.
#[derive(Debug)]
pub(crate) struct TestFolder(pub(crate) PathBuf);

impl TestFolder {
    pub(crate) fn new() -> Self {
        let unique = format!("mooncake-ha-{}-{:x}", std::process::id(), number());
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).expect("a folder for the test");
        Self(path)
    }
}

fn number() -> u64 {
    getrandom::u64().expect("random numbers")
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How a leadership ends by itself: it is kept until then, but not for ever.
pub(crate) fn ended(leadership: &Leadership) -> Ended {
    let stop = AtomicBool::new(false);
    let (leadership, stop) = (leadership, &stop);
    thread::scope(|scope| {
        let keeper = scope.spawn(move || leadership.keep(stop));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !keeper.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Release);
        keeper.thread().unpark();
        keeper.join().expect("no panic")
    })
}
