use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_types::limits;

use crate::backend::{Backend, Claim, Claimed, Won};
use crate::epoch::epoch_of_now;
use crate::leadership::LeaseTimes;
use crate::location::Location;
use crate::{
    AddressError, CoordinatorError, LeaderView, Leadership, MemoryStore, Options, etcd, file,
    kubernetes, memory, redis,
};

/// A master that wants to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its address for clients, `host:port`, at most 512 bytes.
    pub address: String,
}

/// The outcome of a campaign.
#[derive(Clone, Debug)]
pub enum CampaignOutcome {
    /// The candidate leads.
    Leads(Leadership),
    /// Another master leads, or none yet.
    Follows(Option<LeaderView>),
}

/// The place where masters agree on their leader, and where clients find it.
///
/// Every call blocks for a bounded time. Any number of threads may share it, or its clones.
#[derive(Clone)]
pub struct Coordinator {
    backend: Arc<dyn Backend>,
    times: LeaseTimes,
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.backend.fmt(f)
    }
}

/// The coordinator at an address: `etcd://`, `redis://`, `k8s://` or `file://`. Sends no request yet.
///
/// # Errors
/// The address or an option cannot be used.
pub fn connect(address: &str, options: &Options) -> Result<Coordinator, AddressError> {
    options.check()?;
    let backend: Arc<dyn Backend> = match address.parse()? {
        Location::File { folder } => Arc::new(file::FolderBackend::new(&folder, options)),
        Location::Etcd(cluster) => Arc::new(etcd::EtcdBackend::new(&cluster, options)),
        Location::Redis(server) => Arc::new(redis::RedisBackend::new(server, options)),
        Location::Kubernetes { namespace, lease } => {
            Arc::new(kubernetes::Lease::new(&namespace, &lease, options)?)
        }
    };
    let times = LeaseTimes::of(options, &*backend);
    Ok(Coordinator { backend, times })
}

impl Coordinator {
    /// A coordinator for the threads of one process, for tests.
    ///
    /// # Errors
    /// An option cannot be used.
    pub fn in_memory(store: &MemoryStore, options: &Options) -> Result<Self, AddressError> {
        options.check()?;
        let backend = Arc::new(memory::MemoryBackend::new(store, options));
        let times = LeaseTimes::of(options, &*backend);
        Ok(Self { backend, times })
    }

    /// Tries to lead for as long as `within`, at least once. Returns early when the candidate leads, or when the
    /// leader changes.
    ///
    /// # Errors
    /// The coordinator did not answer, or what it holds cannot be used.
    pub fn campaign(
        &self,
        candidate: &Candidate,
        within: Duration,
    ) -> Result<CampaignOutcome, CoordinatorError> {
        let deadline = Instant::now() + within;
        let mut first_seen = None;
        loop {
            let seen = match self.backend.claim(&draw_claim(candidate)?)? {
                Claimed::Won(won) => return self.begin(won),
                Claimed::Held(seen) => seen,
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || *first_seen.get_or_insert_with(|| seen.clone()) != seen {
                return Ok(CampaignOutcome::Follows(seen));
            }
            self.backend.rest(seen.as_ref(), left);
        }
    }

    fn begin(&self, won: Won) -> Result<CampaignOutcome, CoordinatorError> {
        let leadership = Leadership::begin(won, Some(self.times));
        if leadership.is_valid() {
            return Ok(CampaignOutcome::Leads(leadership));
        }
        leadership.resign()?;
        let reason = "it took longer to lead than the lease lasts";
        Err(CoordinatorError::unavailable(format!("{self:?}"), reason))
    }

    /// The current leader, as far as the coordinator knows. It names a dead leader until its lease ends.
    ///
    /// # Errors
    /// The coordinator did not answer, or what it holds cannot be used.
    pub fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        self.backend.leader()
    }

    /// Waits until the leader differs from `known`, for at most `within`. Returns the leader.
    ///
    /// # Errors
    /// The coordinator did not answer, or what it holds cannot be used.
    pub fn watch(
        &self,
        known: Option<&LeaderView>,
        within: Duration,
    ) -> Result<Option<LeaderView>, CoordinatorError> {
        let deadline = Instant::now() + within;
        loop {
            let seen = self.backend.leader()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.as_ref() != known {
                return Ok(seen);
            }
            self.backend.rest(seen.as_ref(), left);
        }
    }
}

fn draw_claim(candidate: &Candidate) -> Result<Claim, CoordinatorError> {
    let address = candidate.address.clone();
    if address.is_empty() || address.len() > limits::MAX_NAME_BYTES {
        let reason = "an address has 1 to 512 bytes";
        return Err(CoordinatorError::unavailable(format!("candidate {address:?}"), reason));
    }
    let mut token = [0; 16];
    getrandom::fill(&mut token)
        .map_err(|error| CoordinatorError::unavailable("the system's random numbers", error))?;
    let token = format!("{:032x}", u128::from_le_bytes(token));
    Ok(Claim { address, token, now: epoch_of_now() })
}
