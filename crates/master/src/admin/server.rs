use std::io;
use std::net::TcpListener;
use std::thread;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{get, post};
use mooncake_types::{Epoch, ErrorCode};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tracing::error;

use super::connections::{self, Limits};
use super::error::Failure;
use super::{health, keys, prometheus, remove_all, segments};
use crate::ask::Asker;

/// Who this master is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Where it can be reached, `host:port`.
    pub(crate) leader: String,
    /// Its epoch when it started.
    pub(crate) epoch: Epoch,
}

/// What every handler sees.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) asker: Asker,
    pub(super) identity: Identity,
}

/// The running server.
#[derive(Debug)]
pub(crate) struct Server {
    ended: oneshot::Receiver<()>,
}

impl Server {
    /// Serves on a thread of its own until `stopping` becomes true.
    pub(crate) fn start(
        listener: TcpListener,
        asker: Asker,
        identity: Identity,
        stopping: watch::Receiver<bool>,
    ) -> io::Result<Server> {
        let (end, ended) = oneshot::channel();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let router = router(State { asker, identity });
        thread::Builder::new().name("admin-http".to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve(listener, router, stopping)) {
                error!(%error, "the admin HTTP server failed");
            }
            runtime.shutdown_background();
            // Nobody waits if the master failed to start.
            let _ = end.send(());
        })?;
        Ok(Server { ended })
    }

    /// Waits for its end, which `stopping` brings about.
    pub(crate) async fn stop(self) {
        // An error means that the thread is gone, which is as good.
        let _ = self.ended.await;
    }
}

async fn serve(
    listener: TcpListener,
    router: Router,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    connections::serve(listener, router, Limits::default(), stopping).await;
    Ok(())
}

fn router(state: State) -> Router {
    Router::new()
        .route("/metrics", get(prometheus::metrics))
        .route("/metrics/summary", get(prometheus::summary))
        .route("/health", get(health::health))
        .route("/role", get(health::role))
        .route("/ha_status", get(health::ha_status))
        .route("/leader", get(health::leader))
        .route("/query_key", get(keys::query_key))
        .route("/batch_query_keys", get(keys::batch_query_keys))
        .route("/get_all_keys", get(keys::get_all_keys))
        .route("/get_all_segments", get(segments::get_all_segments))
        .route("/get_segments_detail", get(segments::get_segments_detail))
        .route("/query_segment", get(segments::query_segment))
        .route("/api/v1/segments/status", get(segments::status))
        .route("/api/v1/remove_all", post(remove_all::remove_all))
        .fallback(async |uri: Uri| {
            Failure::not_found(ErrorCode::InvalidParams, format!("there is no {}", uri.path()))
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Failure::wrong_method(format!("{} does not take {method}", uri.path()))
        })
        .with_state(state)
}
