//! The owner thread: it goes from term to term, until the master stops.

use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use mooncake_calls::{Side, SpanSink, Watch};
use mooncake_ha::StateFileError;
use mooncake_http::{Limits, Server};
use mooncake_kv_events::Publisher;
use mooncake_meta::Shadow;
use mooncake_otlp::Exporter;
use mooncake_tls::Tls;
use mooncake_types::SegmentId;
use thiserror::Error;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::sleep;
use tracing::info;

use crate::accept::Listener;
use crate::admin::{self, AdminState, Frames, Guard};
use crate::ask::{self, Asker, OwnerSlot, Questions};
use crate::bind::{Master, Ports};
use crate::config::{Config, MetadataServer};
use crate::following::{Followed, Following};
use crate::hour::{self, Hour, Sample};
use crate::http2::Http2Door;
use crate::kv_events;
use crate::leader_server::LeaderServer;
use crate::leadership::{
    ClusterSecret, Election, LeadershipConfig, PodLabel, RoleStatus, Term, Unwritten, alone,
};
use crate::metadata_server::{self, Cleanup, MetadataEntries};
use crate::scan::Matcher;
use crate::standby::turn_away;
use crate::summary;
use crate::tenants::{QuotaBook, QuotaSourceError};

/// Why a master stopped other than by request.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The runtime could not be built or a port could not be handed to it.
    #[error("the master cannot serve: {0}")]
    Start(#[from] io::Error),
    /// The membership record cannot be read or written.
    #[error("{0}; name another folder with --state_dir, or have none with --state_dir=none")]
    StateDir(StateFileError),
    /// The existing membership record cannot be used.
    #[error(transparent)]
    StateFile(StateFileError),
    /// The quotas of tenants cannot be read.
    #[error(transparent)]
    Quotas(#[from] QuotaSourceError),
    /// It stopped by request, but pending changes are not known to be in the membership record.
    #[error(transparent)]
    Unwritten(#[from] Unwritten),
}

impl From<StateFileError> for ServeError {
    fn from(error: StateFileError) -> Self {
        match error.is_unwritable() {
            true => Self::StateDir(error),
            false => Self::StateFile(error),
        }
    }
}

impl Master {
    /// Serves on the calling thread until `shutdown` completes. Before it returns, it writes the replies under way,
    /// as long as their readers take them within half a second. One of several masters serves only while it leads.
    ///
    /// # Errors
    /// The system refuses a resource, or the membership record of a single master cannot be used.
    pub fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.run(shutdown))
    }

    async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (address, rpc_addr) = (self.address()?, self.rpc_addr()?);
        let (admin_addr, rpc_port) = (self.admin_addr()?, rpc_addr.map_or(0, |addr| addr.port()));
        let mut election = self.election((address.clone(), rpc_port))?;
        let Master { mut config, pod, rpc, admin, metadata, kv_events, http2, .. } = self;
        // Dropped last: another master may lead before the label is gone.
        let _label = pod.map(|pod| PodLabel::start(pod, election.status())).transpose()?;
        config.metrics_port = admin_addr.map_or(0, |addr| addr.port());
        let (slot, asker) = ask::channel();
        // A question to a single master waits from the start, and is answered once its term begins.
        let first = (!election.is_contested()).then(|| slot.take());
        let registry = MetadataEntries::new();
        let cleanup = cleanup(config.metadata_server.as_ref(), &registry);
        let (followed, following) = watch::channel(Followed::default());
        let kv_events = publish_kv_events(&config, kv_events, &asker)?;
        let (told, hour) = watch::channel(Hour::default());
        let quotas = config.tenant_quotas.clone().map(QuotaBook::open).transpose()?;
        let state = AdminState {
            quotas: quotas.clone(),
            asker: asker.clone(),
            status: election.status(),
            following,
            kv_events: kv_events.clone(),
            matcher: Matcher::default(),
            frames: Arc::new(Frames::new(&config, hour)),
        };
        let serve_admin = |listener| {
            let router = admin::router(state, &Guard::of(&config));
            Server::start("admin-http", listener, router, Limits::default(), config.tls.clone())
        };
        let admin = admin.map(serve_admin).transpose()?;
        let token = config.metadata_server.as_ref().map_or("", |server| &server.auth_token);
        let entries = metadata_server::router(registry, token);
        let metadata =
            metadata.map(|it| serve_metadata(it, entries, config.tls.clone())).transpose()?;
        let listener = Listener::begin(rpc, config.tls.clone())?;
        spawn_local(observe(asker, election.status(), told, config.report_metrics));
        let server = MasterServer {
            calls: watch_calls(&config)?,
            config: Rc::new(config),
            listener,
            slot,
            cleanup,
            followed: Rc::new(followed),
            kv_events,
            quotas,
            http2,
            rpc_addr: rpc_addr.map_or(address, |addr| addr.to_string()),
            admin_addr: admin_addr.map(|addr| addr.to_string()),
        };
        let last = server.serve(&mut election, first, shutdown).await?;
        drop(server);
        // Before the term ends, so that this master is not elected once more while it stops.
        election.withdraw();
        admin.iter().for_each(Server::begin_stop);
        let mut stopped = Ok(());
        if let Some((leading, term)) = last {
            stopped = leading.stop().await;
            election.leave(&term);
        }
        // After a write that does not end, the election thread would wait for it.
        if stopped.is_ok() {
            election.close();
        }
        if let Some(admin) = admin {
            admin.stopped().await;
        }
        if let Some(metadata) = metadata {
            metadata.stopped().await;
        }
        stopped?;
        info!("the master stopped");
        Ok(())
    }

    fn election(&self, (address, rpc_port): (String, u16)) -> Result<Election, ServeError> {
        let config = &self.config;
        match (&config.leadership, &self.coordinator) {
            (_, Some(coordinator)) => {
                let cluster_id = config.cluster_id.clone();
                let auth_token = config.auth_token.clone();
                let password = ClusterSecret { cluster_id, auth_token, tls: config.tls.clone() };
                Ok(Election::elected(coordinator.clone(), address, password)?)
            }
            (LeadershipConfig::Alone { state_dir: Some(dir) }, None) => {
                Ok(Election::alone(alone::term(dir, &config.cluster_id, rpc_port)?, address))
            }
            _ => Ok(Election::alone(Term::unrecorded(), address)),
        }
    }
}

/// The parts that stay from term to term.
struct MasterServer {
    config: Rc<Config>,
    listener: Listener,
    slot: OwnerSlot,
    cleanup: Option<Cleanup>,
    calls: Arc<Watch>,
    /// Publishes how much a standby knows.
    followed: Rc<watch::Sender<Followed>>,
    kv_events: Option<Arc<Publisher>>,
    quotas: Option<Arc<QuotaBook>>,
    /// Where connections go that speak HTTP/2.
    http2: Option<Http2Door>,
    /// For the log.
    rpc_addr: String,
    admin_addr: Option<String>,
}

impl MasterServer {
    /// Serves, or is a standby, until `shutdown` completes. Returns the term that was under way then.
    async fn serve(
        &self,
        election: &mut Election,
        mut first: Option<Questions>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<Option<(LeaderServer, Term)>> {
        let mut shutdown = pin!(shutdown);
        let status = election.status();
        if election.is_contested() {
            let (rpc_addr, admin_addr) = self.addresses();
            info!(%rpc_addr, admin_addr, "the master stands for election");
        }
        loop {
            let following = self.follow(election);
            let term = tokio::select! {
                biased;
                () = &mut shutdown => return Ok(None),
                term = election.term() => term,
                () = turn_away(&self.config, &self.listener, (&status, self.http2.as_ref())) => continue,
            };
            let known = following.map(Following::end).unwrap_or_default();
            let questions = first.take().unwrap_or_else(|| self.slot.take());
            let mut leading = self.lead((&term, known), questions)?;
            tokio::select! {
                () = leading.serve(&self.listener, &term) => {}
                () = &mut shutdown => return Ok(Some((leading, term))),
            }
            self.slot.leave();
            drop(leading);
            election.leave(&term);
        }
    }

    /// Its addresses, for the log.
    fn addresses(&self) -> (&str, Option<impl tracing::Value>) {
        (&self.rpc_addr, self.admin_addr.as_ref().map(tracing::field::display))
    }

    /// Follows the nodes' ledgers, if there are other masters and the configuration allows it.
    fn follow(&self, election: &Election) -> Option<Following> {
        let follows = election.is_contested() && self.config.warm_standby;
        let start = || Following::start(&self.config, election.status(), Rc::clone(&self.followed));
        follows.then(start)
    }

    fn lead(
        &self,
        (term, known): (&Term, BTreeMap<SegmentId, Shadow>),
        questions: Questions,
    ) -> io::Result<LeaderServer> {
        let config = Config::clone(&self.config);
        let notes = (Arc::clone(&self.calls), self.cleanup.clone());
        let told = (self.kv_events.clone(), self.http2.clone());
        let begin = (term, known, self.quotas.as_deref());
        let leading = LeaderServer::begin(config, begin, questions, notes, told)?;
        let ((rpc_addr, admin_addr), epoch) = (self.addresses(), term.leadership.epoch());
        info!(%rpc_addr, admin_addr, %epoch, "the master serves");
        Ok(leading)
    }
}

/// What looks after the requests of all terms.
fn watch_calls(config: &Config) -> io::Result<Arc<Watch>> {
    let exporter = config.otel_endpoint.as_ref().map(Exporter::start).transpose()?;
    let sink = exporter.map(|exporter| Arc::new(exporter) as Arc<dyn SpanSink>);
    Ok(Arc::new(Watch::new(Side::Master, config.slow_call).traced(sink)))
}

fn publish_kv_events(
    config: &Config,
    ports: Option<Ports>,
    asker: &Asker,
) -> io::Result<Option<Arc<Publisher>>> {
    match (&config.kv_events, ports) {
        (Some(events), Some(ports)) => {
            let passwords = Guard::of(config).passwords();
            kv_events::start(events, ports, asker.clone(), passwords).map(Some)
        }
        _ => Ok(None),
    }
}

fn serve_metadata(
    listener: std::net::TcpListener,
    router: axum::Router,
    tls: Option<Tls>,
) -> io::Result<Server> {
    let server = Server::start("metadata-http", listener, router, metadata_server::limits(), tls)?;
    info!(metadata_addr = %server.address(), "the metadata server serves");
    Ok(server)
}

fn cleanup(config: Option<&MetadataServer>, registry: &MetadataEntries) -> Option<Cleanup> {
    let prefix = config?.cleanup_prefix.clone()?;
    Some(Cleanup { registry: registry.clone(), prefix })
}

/// Keeps the numbers of the last hour, and logs a line of them if that is wanted.
async fn observe(
    asker: Asker,
    status: watch::Receiver<RoleStatus>,
    hour: watch::Sender<Hour>,
    logs: bool,
) {
    loop {
        let snapshot = asker.snapshot().await.ok();
        if let Some(snapshot) = &snapshot {
            hour.send_modify(|hour| hour.add(Sample::of(snapshot)));
        }
        if logs {
            let line = summary::log_line(&status.borrow(), snapshot.as_ref());
            info!("{line}");
        }
        sleep(hour::EVERY).await;
    }
}
