//! The owner thread: accepting, the timer, the questions of other threads, and the end of all of them.

use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::time::Duration;

use mooncake_http::{Limits, Server};
use mooncake_meta::Meta;
use mooncake_types::ErrorCode;
use mooncake_wire::Refusal;
use socket2::{SockRef, TcpKeepalive};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::admin::{self, Identity, State};
use crate::ask::{self, Asker};
use crate::bind::Master;
use crate::clock::{Clock, epoch_of_this_start};
use crate::config::{Config, MetadataServer};
use crate::metadata_server::{Cleanup, Registry};
use crate::owner::Owner;
use crate::refuse::refuse;
use crate::shell::Shell;
use crate::{connection, lookout, metadata_server, summary, timer};

/// How long connections have to take their last replies when the master stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Connections over the limit that are told so at the same time; more are closed without a word.
const REFUSED_AT_A_TIME: usize = 256;

/// Why a master stopped other than by request.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The runtime could not be built or a port could not be handed to it.
    #[error("the master cannot serve: {0}")]
    Start(#[from] io::Error),
}

impl Master {
    /// Serves on the calling thread until `shutdown` completes. Replies that are under way are written before it
    /// returns, as long as their readers take them within half a second.
    ///
    /// # Errors
    /// The system refuses what serving needs.
    pub fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.run(shutdown))
    }

    async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (rpc_addr, admin_addr) = (self.rpc_addr()?, self.admin_addr()?);
        let mut config = self.config;
        config.metrics_port = admin_addr.port();
        let epoch = epoch_of_this_start();
        let identity =
            Identity { leader: format!("{}:{}", config.rpc_address, rpc_addr.port()), epoch };
        let report = config.report_metrics;

        let (stop, stopping) = watch::channel(false);
        let (asker, questions) = ask::channel();
        let registry = Registry::new();
        let cleanup = cleanup(config.metadata_server.as_ref(), &registry);
        let shell = Rc::new(shell(config, epoch, stopping, cleanup));
        let router = admin::router(State { asker: asker.clone(), identity });
        let admin = Server::start("admin-http", self.admin, router, Limits::default())?;
        let metadata =
            self.metadata.map(|listener| serve_metadata(listener, registry)).transpose()?;
        let listener = TcpListener::from_std(self.rpc)?;
        let mut core = JoinSet::new();
        core.spawn_local(timer::run(Rc::clone(&shell)));
        core.spawn_local(lookout::run(Rc::clone(&shell)));
        core.spawn_local(ask::answer(Rc::clone(&shell), questions));
        if report {
            core.spawn_local(report_metrics(asker));
        }
        info!(%rpc_addr, %admin_addr, %epoch, "the master serves");

        let mut connections = Connections { shell, open: JoinSet::new(), refused: JoinSet::new() };
        tokio::select! {
            () = connections.accept(&listener) => {}
            () = watch_over(&mut core) => {}
            () = shutdown => {}
        }
        drop(listener);
        stop.send_replace(true);
        admin.begin_stop();
        let parted = timeout(FAREWELL, connections.part()).await;
        if parted.is_err() {
            debug!("connections that took no reply were cut off");
        }
        admin.stopped().await;
        if let Some(metadata) = metadata {
            metadata.stopped().await;
        }
        info!("the master stopped");
        Ok(())
    }
}

fn serve_metadata(listener: std::net::TcpListener, registry: Registry) -> io::Result<Server> {
    let router = metadata_server::router(registry);
    let server = Server::start("metadata-http", listener, router, metadata_server::limits())?;
    info!(metadata_addr = %server.address(), "the metadata server serves");
    Ok(server)
}

fn cleanup(config: Option<&MetadataServer>, registry: &Registry) -> Option<Cleanup> {
    let prefix = config?.cleanup_prefix.clone()?;
    Some(Cleanup { registry: registry.clone(), prefix })
}

fn shell(
    config: Config,
    epoch: mooncake_types::Epoch,
    stopping: watch::Receiver<bool>,
    cleanup: Option<Cleanup>,
) -> Shell {
    let mut pool = config.pool.clone();
    if pool.seed == 0 {
        pool.seed = epoch.0;
    }
    Shell::new(config, Owner::new(Meta::new(pool, epoch), Clock::start(), cleanup), stopping)
}

async fn report_metrics(asker: Asker) {
    const EVERY: Duration = Duration::from_secs(10);
    while let Ok(snapshot) = asker.ask(|owner| owner.snapshot()).await {
        info!("Master Admin Metrics: {}", summary::line(&snapshot));
        sleep(EVERY).await;
    }
}

/// Passes on the panics of tasks that never end by themselves.
async fn watch_over(tasks: &mut JoinSet<()>) {
    while let Some(ended) = tasks.join_next().await {
        pass_on_panic(ended);
    }
    std::future::pending::<()>().await;
}

/// A panic means that the state machine can no longer be trusted: the process must not go on as if nothing had
/// happened.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

struct Connections {
    shell: Rc<Shell>,
    open: JoinSet<()>,
    refused: JoinSet<()>,
}

impl Connections {
    /// Accepts connections until it is dropped.
    async fn accept(&mut self, listener: &TcpListener) {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => self.welcome(stream, peer),
                    Err(error) => {
                        warn!(%error, "cannot accept a connection");
                        // Most likely there are no file descriptors left; they come back as connections end.
                        sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(ended) = self.open.join_next() => pass_on_panic(ended),
                Some(ended) = self.refused.join_next() => pass_on_panic(ended),
            }
        }
    }

    fn welcome(&mut self, mut stream: TcpStream, peer: SocketAddr) {
        let config = &self.shell.config;
        let limit = config.max_connections;
        if let Err(error) = prepare(&stream, config.tcp_no_delay) {
            return debug!(%peer, %error, "lost before it was served");
        }
        if self.open.len() < limit {
            self.open.spawn_local(connection::run(Rc::clone(&self.shell), stream, peer));
            return;
        }
        debug!(%peer, limit, "refused: too many connections");
        if self.refused.len() < REFUSED_AT_A_TIME {
            let refusal = Refusal {
                code: ErrorCode::UnavailableInCurrentStatus,
                message: format!("the master serves {limit} connections, which is its limit"),
            };
            self.refused.spawn_local(async move { refuse(&mut stream, 0, &refusal).await });
        }
    }

    /// Waits until every connection has ended.
    async fn part(&mut self) {
        while let Some(ended) = self.open.join_next().await {
            pass_on_panic(ended);
        }
    }
}

/// A peer whose host vanished is found out within a quarter of a minute.
fn prepare(stream: &TcpStream, no_delay: bool) -> io::Result<()> {
    stream.set_nodelay(no_delay)?;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(5))
        .with_interval(Duration::from_secs(2))
        .with_retries(5);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}
