//! The pool every two seconds, made once for all viewers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mooncake_meta::ReplicationMode;
use mooncake_types::DrainReport;
use serde::Serialize;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::told::{Hot, Now, Pool, Segments, ToldProblem, segment_problems, tasks};
use crate::admin::health::StandbyKnowledge;
use crate::admin::state::AdminState;
use crate::ask::NotServing;
use crate::config::Config;
use crate::hot_keys::HotKey;
use crate::hour::{Hour, Sample};
use crate::leadership::{Role, RoleStatus, Service};
use crate::metrics::Snapshot;
use crate::obstacle;
use crate::owner::Owner;
use crate::problems::{self, Problem};

/// Time between two frames.
const EVERY: Duration = Duration::from_secs(2);

/// Most viewers at a time, so that probes and Prometheus find a connection.
pub(super) const MOST_VIEWERS: usize = 64;

/// The pool at one moment, as the bytes of events.
#[derive(Debug)]
pub(super) struct Frame {
    /// Grows by one every two seconds, whether anybody looks or not.
    pub(super) turn: u64,
    /// What seldom changes, with a number that changes with it; absent on a standby.
    pub(super) segments: Option<(u64, Bytes)>,
    pub(super) now: Bytes,
    /// Names of keys; absent on a standby.
    pub(super) hot: Option<Bytes>,
}

/// Makes frames, one for each turn in which somebody looks.
#[derive(Debug)]
pub(crate) struct Frames {
    start: Instant,
    cluster: String,
    high_watermark: f64,
    counts_reads: bool,
    latest: Mutex<Option<Arc<Frame>>>,
    /// The pool in numbers over the last hour.
    pub(super) hour: watch::Receiver<Hour>,
    /// The places of viewers.
    places: Arc<Semaphore>,
}

/// What the owner tells at once.
struct Told {
    snapshot: Snapshot,
    service: Service,
    reason: Option<String>,
    status: RoleStatus,
    problems: Vec<Problem>,
    drains: Vec<DrainReport>,
    hot: Vec<(HotKey, u64)>,
    leads_ms: u64,
}

impl Frames {
    pub(crate) fn new(config: &Config, hour: watch::Receiver<Hour>) -> Self {
        Self {
            start: Instant::now(),
            cluster: config.cluster_id.clone(),
            high_watermark: config.pool.eviction_high_watermark_ratio,
            counts_reads: config.pool.replication.mode != ReplicationMode::Off,
            latest: Mutex::new(None),
            hour,
            places: Arc::new(Semaphore::new(MOST_VIEWERS)),
        }
    }

    /// A place for one more viewer, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// The frame of this turn.
    pub(super) async fn of_now(&self, state: &AdminState) -> Arc<Frame> {
        let mut latest = self.latest.lock().await;
        let turn = self.start.elapsed().as_secs() / EVERY.as_secs();
        if let Some(frame) = latest.as_ref().filter(|frame| frame.turn == turn) {
            return Arc::clone(frame);
        }
        let frame = Arc::new(self.make(turn, state, latest.as_deref()).await);
        *latest = Some(Arc::clone(&frame));
        frame
    }

    /// Waits for the turn after this one.
    pub(super) async fn wait(&self, turn: u64) {
        let seconds = (turn + 1).saturating_mul(EVERY.as_secs());
        sleep_until(self.start + Duration::from_secs(seconds)).await;
    }

    async fn make(&self, turn: u64, state: &AdminState, former: Option<&Frame>) -> Frame {
        let status = state.status.borrow().clone();
        match self.of_leader(&status, state).await {
            Ok((segments, now, hot)) => {
                let former = former.and_then(|frame| frame.segments.clone());
                let segments = match former {
                    Some((number, known)) if known == segments => (number, known),
                    Some((number, _)) => (number + 1, segments),
                    None => (turn, segments),
                };
                Frame { turn, segments: Some(segments), now, hot: Some(hot) }
            }
            Err(NotServing) => {
                Frame { turn, segments: None, now: self.of_standby(status, state), hot: None }
            }
        }
    }

    /// The events of a leader: `segments`, `now` and `hot`.
    async fn of_leader(
        &self,
        status: &RoleStatus,
        state: &AdminState,
    ) -> Result<(Bytes, Bytes, Bytes), NotServing> {
        if status.role != Role::Leader {
            return Err(NotServing);
        }
        let status = status.clone();
        let mut told = state.asker.ask(move |owner| Told::of(owner, status)).await?;
        let reports = state.asker.segments().await?;
        told.snapshot.add(&reports);
        let segments = Segments {
            high_watermark: self.high_watermark,
            segments: reports.iter().map(Into::into).collect(),
        };
        let keys = std::mem::take(&mut told.hot).into_iter().map(Into::into).collect();
        let hot = Hot { counts_reads: self.counts_reads, keys };
        let mut now = self.of_master(told.status.clone(), told.service);
        told.problems.extend(segment_problems(&reports));
        let used = reports.iter().map(|report| report.used).collect();
        (now.pool, now.reason) = (Some(told.pool(now.state, used)), told.reason);
        Ok((event("segments", &segments), event("now", &now), event("hot", &hot)))
    }

    fn of_standby(&self, status: RoleStatus, state: &AdminState) -> Bytes {
        let reason = status.silence.as_ref().map(ToString::to_string);
        let following = StandbyKnowledge::of(state, &status);
        let now = Now { reason, following, ..self.of_master(status, Service::Recovering) };
        event("now", &now)
    }

    fn of_master(&self, status: RoleStatus, service: Service) -> Now<'_> {
        let (role, state) = (status.role.word(), status.role.state(service));
        let (leader, epoch) = status.leader.map(|it| (it.address, it.epoch.0)).unzip();
        Now { leader, epoch, ..Now::of_master(&self.cluster, (role, state)) }
    }
}

impl Told {
    fn of(owner: &Owner, status: RoleStatus) -> Self {
        Self {
            snapshot: owner.snapshot(),
            service: owner.service(),
            reason: obstacle::to_changes(owner),
            status: status.under(owner.meta.epoch()),
            problems: problems::of(owner),
            drains: owner.meta.drain_jobs(),
            hot: owner.recent_hot_keys(),
            leads_ms: owner.leads_ms(),
        }
    }

    /// The pool under a leader in this state.
    fn pool(&self, state: &str, used: Vec<u64>) -> Pool {
        let stats = &self.snapshot.stats;
        let of_leader = Problem::of_leader(state, self.reason.as_deref());
        let problems = of_leader.into_iter().chain(self.problems.iter().cloned());
        Pool {
            leads_ms: self.leads_ms,
            clients: stats.clients_in_sight,
            clients_away: stats.clients_out_of_sight,
            sample: Sample::of(&self.snapshot),
            used,
            problems: problems.map(ToldProblem::from).collect(),
            tasks: tasks(stats, &self.drains),
            drains: self.drains.iter().cloned().map(Into::into).collect(),
        }
    }
}

/// One event of a stream of server-sent events. JSON as it is written here has no line ends.
pub(super) fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("all maps have texts as keys");
    format!("event: {name}\ndata: {data}\n\n").into()
}
