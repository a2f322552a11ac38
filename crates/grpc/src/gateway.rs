//! The thread that serves gRPC.

use mooncake_types::Secret;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::Builder;
use std::time::Duration;

use futures_core::Stream;
use mooncake_memory::spawn_unpinned;
use mooncake_tls::Tls;
use tokio::runtime::{self, LocalOptions};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tonic::transport::Server;
use tracing::debug;

use crate::arrival::{Arrival, Rewound};
use crate::generated::master_service_server::MasterServiceServer;
use crate::health::MasterHealth;
use crate::link::Link;
use crate::service::MasterCalls;

/// The description of the service, for reflection. Written by `crates/protogen`.
const DESCRIPTION: &[u8] = include_bytes!("master_service.bin");

/// Most bytes of a request: a key or a pattern, and the lengths of slices.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Most calls of one connection at a time; further ones wait.
const MAX_CALLS: u32 = 64;

/// How long a peer may take to answer a ping of HTTP/2, and the time between two pings.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Connections that wait for the thread. Further ones are closed.
const MAX_WAITING: usize = 64;

/// Which master a gateway serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The address of the master's own protocol, `HOST:PORT`.
    pub master: String,
    /// The pool.
    pub cluster_id: String,
    /// The master's token, with which its health is asked for.
    pub auth_token: Secret,
    /// The master's certificates, if connections to it are encrypted.
    pub tls: Option<Tls>,
    /// The most connections. Further ones are closed.
    pub max_connections: usize,
}

/// A thread that serves gRPC on connections that the master hands over. Dropping it closes them.
#[derive(Debug)]
pub struct Gateway {
    door: Door,
    /// Dropped to stop the thread.
    _stop: oneshot::Sender<()>,
}

/// Where connections are handed to the thread.
#[derive(Clone, Debug)]
pub struct Door(mpsc::Sender<Arrival>);

impl Gateway {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(config: GatewayConfig) -> io::Result<Self> {
        let (door, arrivals) = mpsc::channel(MAX_WAITING);
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // Operations borrow their arguments over awaits, so their tasks stay on this thread.
            let mut builder = runtime::Builder::new_current_thread();
            let runtime = match builder.enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime,
                Err(error) => return tracing::error!(%error, "gRPC is not served"),
            };
            runtime.block_on(async {
                let serving = std::pin::pin!(serve(config, arrivals));
                let stopped = std::pin::pin!(stopped);
                Until { serving, stopped }.await;
            });
        };
        spawn_unpinned(Builder::new().name("master-grpc".to_owned()), run)?;
        Ok(Self { door: Door(door), _stop: stop })
    }

    /// Where connections are handed over.
    #[must_use]
    pub fn door(&self) -> Door {
        self.door.clone()
    }
}

impl Door {
    /// Hands over a connection. It is closed if too many wait.
    pub fn pass(&self, arrival: Arrival) {
        if self.0.try_send(arrival).is_err() {
            debug!("a gRPC connection was closed: too many wait");
        }
    }
}

/// Ends with the first of the two.
struct Until<'a, S, T> {
    serving: Pin<&'a mut S>,
    stopped: Pin<&'a mut T>,
}

impl<S: Future, T: Future> Future for Until<'_, S, T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let is_served = self.serving.as_mut().poll(context).is_ready();
        match is_served || self.stopped.as_mut().poll(context).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

async fn serve(config: GatewayConfig, arrivals: mpsc::Receiver<Arrival>) {
    let config = Arc::new(config);
    let open = Arc::new(Semaphore::new(config.max_connections));
    let incoming = Incoming { arrivals, open, config: Arc::clone(&config) };
    let calls = MasterServiceServer::new(MasterCalls).max_decoding_message_size(MAX_REQUEST_BYTES);
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTION)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .expect("the description is that of the schema");
    let served = Server::builder()
        .max_concurrent_streams(MAX_CALLS)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(calls)
        .add_service(MasterHealth::server(config))
        .add_service(reflection)
        .serve_with_incoming(incoming)
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "gRPC is served no more");
    }
}

/// The connections that the master hands over.
struct Incoming {
    arrivals: mpsc::Receiver<Arrival>,
    open: Arc<Semaphore>,
    config: Arc<GatewayConfig>,
}

impl Stream for Incoming {
    type Item = io::Result<Rewound>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Rewound>>> {
        loop {
            let Poll::Ready(arrival) = self.arrivals.poll_recv(context) else {
                return Poll::Pending;
            };
            let Some(arrival) = arrival else { return Poll::Ready(None) };
            let Ok(permit) = Arc::clone(&self.open).try_acquire_owned() else {
                debug!("a gRPC connection was closed: too many are open");
                continue;
            };
            let link = Link::new(&self.config);
            match link.and_then(|link| Rewound::new(arrival, link, permit)) {
                Ok(connection) => return Poll::Ready(Some(Ok(connection))),
                Err(error) => debug!(%error, "a gRPC connection was lost before it was served"),
            }
        }
    }
}
