use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_ha::{CampaignOutcome, Candidate, Coordinator, Ended, Leadership, Options, connect};

/// The lease of a leader, unless a test says otherwise.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// The id of the cluster in these tests.
pub(crate) const CLUSTER: &str = "of-the-tests";

/// A coordinator's server or folder, used by one test only.
pub(crate) trait World: Sync {
    /// Connects another coordinator, as another process would.
    fn connect_to(&self, cluster_id: &str) -> Coordinator;

    /// Writes any bytes in place of the leader's name, and keeps them there for a while.
    fn spoil_leader(&self, bytes: &[u8]);

    /// Writes any bytes in place of the membership record.
    fn spoil_record(&self, bytes: &[u8]);

    /// The address and the options for another process.
    fn reach(&self) -> (String, Options) {
        panic!("no other process reaches it");
    }

    /// How long a dead leader's lease may last beyond `TTL`.
    fn slack(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn connect(&self) -> Coordinator {
        self.connect_to(CLUSTER)
    }
}

/// The options of the tests.
pub(crate) fn options(cluster_id: &str) -> Options {
    // Without a suspension, a leadership ends with its lease; the tests decide when to renew it again.
    Options { ttl: TTL, suspension: Duration::ZERO, ..Options::new(cluster_id) }
}

/// Connects by an address.
pub(crate) fn at(address: &str, cluster_id: &str) -> Coordinator {
    connect(address, &options(cluster_id)).expect("an address")
}

pub(crate) fn candidate(name: &str) -> Candidate {
    Candidate { address: format!("{name}:50051") }
}

/// Campaigns, and panics unless the candidate leads.
pub(crate) fn lead(coordinator: &Coordinator, name: &str, within: Duration) -> Leadership {
    match coordinator.campaign(&candidate(name), within) {
        Ok(CampaignOutcome::Leads(leadership)) => leadership,
        other => panic!("{name} does not lead: {other:?}"),
    }
}

/// Campaigns until the former leader has lost its leadership.
pub(crate) fn follow(coordinator: &Coordinator, name: &str, within: Duration) -> Leadership {
    super::wait::wait_for("to lead", within, || {
        match coordinator.campaign(&candidate(name), Duration::from_millis(50)) {
            Ok(CampaignOutcome::Leads(leadership)) => Some(leadership),
            Ok(CampaignOutcome::Follows(_)) => None,
            Err(error) => panic!("{name}: {error}"),
        }
    })
}

/// A folder for one test, removed on drop.
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

/// How a leadership ends when it is only kept.
pub(crate) fn ended(leadership: &Leadership) -> Ended {
    Keeper::of(leadership).finish()
}

/// A thread that keeps a leadership until this is dropped.
pub(crate) struct Keeper {
    thread: JoinHandle<Ended>,
    stop: Arc<AtomicBool>,
}

impl Keeper {
    pub(crate) fn of(leadership: &Leadership) -> Self {
        let (leadership, stop) = (leadership.clone(), Arc::<AtomicBool>::default());
        let own = Arc::clone(&stop);
        Self { thread: thread::spawn(move || leadership.keep(&own)), stop }
    }

    /// Waits up to 30 s for the leadership to end, and returns how it ended.
    pub(crate) fn finish(self) -> Ended {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.stop()
    }

    /// Returns how the leadership ended, or stops keeping it.
    pub(crate) fn stop(mut self) -> Ended {
        self.tell();
        let idle = thread::spawn(|| Ended::Stopped);
        std::mem::replace(&mut self.thread, idle).join().expect("no panic")
    }

    fn tell(&self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tell();
    }
}
