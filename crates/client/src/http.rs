//! The HTTP server of a client: how the client is, and what it counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mooncake_http::{Limits, Server, listen, prometheus};

use crate::OpenError;
use crate::config::HttpAddress;
use crate::metrics::Metrics;

/// Operators and their probes are few.
const MAX_CONNECTIONS: usize = 64;

/// The running server of a store.
#[derive(Debug)]
pub(crate) struct Http {
    server: Server,
    condition: Arc<Condition>,
}

/// How the store is, as its server tells it.
#[derive(Debug, Default)]
struct Condition {
    /// Whether the master answered the last ping; absent until the store is open.
    well: OnceLock<Arc<AtomicBool>>,
    leaving: AtomicBool,
}

/// What every handler sees.
#[derive(Clone, Debug)]
struct State {
    condition: Arc<Condition>,
    metrics: Arc<Metrics>,
}

impl Http {
    /// Takes the port and serves: a store that is not open yet says so.
    pub(crate) fn start(address: &HttpAddress, metrics: Arc<Metrics>) -> Result<Self, OpenError> {
        let listener = listen(&address.host, address.port).map_err(OpenError::Http)?;
        let condition = Arc::new(Condition::default());
        let router = router(State { condition: Arc::clone(&condition), metrics });
        let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
        let server = Server::start("client-http", listener, router, limits)
            .map_err(|error| OpenError::Thread { thread: "HTTP", reason: error.to_string() })?;
        Ok(Self { server, condition })
    }

    /// The server itself.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// The store is open; `well` is whether the master answered the last ping.
    pub(crate) fn opened(&self, well: Arc<AtomicBool>) {
        // A store is opened once.
        let _ = self.condition.well.set(well);
    }

    /// The store is leaving the pool.
    pub(crate) fn leaving(&self) {
        self.condition.leaving.store(true, Ordering::Relaxed);
    }
}

impl Drop for Http {
    /// The port is free again at once, also if the store could not be opened.
    fn drop(&mut self) {
        self.server.stop();
    }
}

fn router(state: State) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/metrics/summary", get(summary))
        .with_state(state)
}

/// `GET /health`, under the names and numbers that probes of the C++ package know.
async fn health(Extract(state): Extract<State>) -> impl IntoResponse {
    let condition = &state.condition;
    let well = condition.well.get().filter(|_| !condition.leaving.load(Ordering::Relaxed));
    let (status, word, code) = match well.map(|well| well.load(Ordering::Relaxed)) {
        Some(true) => (StatusCode::OK, "healthy", 0),
        None => (StatusCode::SERVICE_UNAVAILABLE, "not_initialized", 1),
        Some(false) => (StatusCode::SERVICE_UNAVAILABLE, "master_unreachable", 2),
    };
    let body = format!(r#"{{"status":"{word}","code":{code}}}"#);
    (status, [(CONTENT_TYPE, "application/json")], body)
}

/// `GET /metrics`.
async fn metrics(Extract(state): Extract<State>) -> Response {
    match state.metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response(),
        Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written").into_response()
        }
    }
}

/// `GET /metrics/summary`.
async fn summary(Extract(state): Extract<State>) -> String {
    state.metrics.summary()
}
