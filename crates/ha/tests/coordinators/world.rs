use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_ha::{CampaignOutcome, Candidate, Coordinator, Ended, Leadership, Options, connect};

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
    // The tests see leases end, and say when they are to be taken up again.
    Options { ttl: TTL, suspension: Duration::ZERO, ..Options::new(cluster_id) }
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
        Ok(CampaignOutcome::Leads(leadership)) => leadership,
        other => panic!("{name} does not lead: {other:?}"),
    }
}

/// Leads as soon as the leader of before does no more.
pub(crate) fn follow(coordinator: &Coordinator, name: &str, within: Duration) -> Leadership {
    super::wait::wait_for("to lead", within, || {
        match coordinator.campaign(&candidate(name), Duration::from_millis(50)) {
            Ok(CampaignOutcome::Leads(leadership)) => Some(leadership),
            Ok(CampaignOutcome::Follows(_)) => None,
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

/// How a leadership ends by itself.
pub(crate) fn ended(leadership: &Leadership) -> Ended {
    Keeper::of(leadership).finish()
}

/// A thread that keeps a leadership, until the value goes.
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

    /// How it ended by itself. It is waited for, but not for ever.
    pub(crate) fn finish(self) -> Ended {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        self.stop()
    }

    /// How it ended, if it has; it is stopped otherwise.
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
