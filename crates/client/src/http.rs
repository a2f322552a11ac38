//! The HTTP server of a client: its health and its metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use mooncake_http::{Limits, Server, listen, prometheus};
use mooncake_memory::{BrokenThread, broken_thread};
use mooncake_tls::Tls;
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};

use crate::config::HttpAddress;
use crate::metrics::Metrics;
use crate::open_error::OpenError;
use crate::store_condition::StoreCondition;

/// Only operators and probes connect, and these are few.
const MAX_CONNECTIONS: usize = 64;

/// The running server of a store.
#[derive(Debug)]
pub(crate) struct Http(Server);

/// The state that every handler reads.
#[derive(Clone, Debug)]
struct HttpState {
    condition: Arc<StoreCondition>,
    metrics: Arc<Metrics>,
}

impl Http {
    /// Binds the port and starts to serve. Until the store is open, `/health` says `not_initialized`.
    pub(crate) fn start(
        address: &HttpAddress,
        (metrics, condition): (Arc<Metrics>, Arc<StoreCondition>),
        tls: Option<Tls>,
    ) -> Result<Self, OpenError> {
        tls.as_ref().map_or(Ok(()), Tls::check_serving)?;
        let listener = listen(&address.host, address.port).map_err(OpenError::Http)?;
        let router = router(HttpState { condition, metrics });
        let limits = Limits { connections: MAX_CONNECTIONS, ..Limits::default() };
        let server = Server::start("client-http", listener, router, limits, tls)
            .map_err(|error| OpenError::Thread { thread: "HTTP", reason: error.to_string() })?;
        Ok(Self(server))
    }

    /// The server itself.
    pub(crate) fn server(&self) -> &Server {
        &self.0
    }
}

impl Drop for Http {
    /// Frees the port at once, even if the store could not be opened.
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn router(state: HttpState) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/metrics/summary", get(summary))
        .with_state(state)
}

/// `GET /health`: 200 if the store works, else 503 with a word, in the names and codes that probes of the C++ package
/// expect.
async fn health(Extract(state): Extract<HttpState>) -> impl IntoResponse {
    let condition = &state.condition;
    let (status, body) = answer(condition.health(), condition.is_unreached(), broken_thread());
    (status, [(CONTENT_TYPE, "application/json")], body)
}

/// The response of `/health`. `well` is whether the master answers, or `None` if the store is not open. `unreached`
/// is whether others fail to reach this node. `broken` is a thread that panicked.
fn answer(
    well: Option<bool>,
    unreached: bool,
    broken: Option<&BrokenThread>,
) -> (StatusCode, String) {
    let unwell = StatusCode::SERVICE_UNAVAILABLE;
    if let Some(BrokenThread { thread, reason }) = broken {
        let reason = plain(&format!("the thread {thread} panicked: {reason}"));
        let state = format!(r#""status":"broken","code":3,"reason":"{reason}""#);
        return (unwell, format!("{{{state},{}}}", versions()));
    }
    let (status, word, code) = match well {
        Some(true) if unreached => (unwell, "unreachable", 4),
        Some(true) => (StatusCode::OK, "healthy", 0),
        None => (unwell, "not_initialized", 1),
        Some(false) => (unwell, "master_unreachable", 2),
    };
    (status, format!(r#"{{"status":"{word}","code":{code},{}}}"#, versions()))
}

/// What this program is, as fields of a JSON object.
fn versions() -> String {
    format!(r#""version":"{SOFTWARE_VERSION}","protocol_version":{PROTOCOL_VERSION}"#)
}

/// A text cut to a limit, with all characters replaced that JSON would have to escape.
fn plain(text: &str) -> String {
    const LONGEST: usize = 500;
    let plain = |char: char| match char {
        '"' => '\'',
        '\\' => '/',
        char if char.is_control() => ' ',
        char => char,
    };
    text.chars().take(LONGEST).map(plain).collect()
}

/// `GET /version`: the versions of this program and of its protocol.
async fn version() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], format!("{{{}}}", versions()))
}

/// `GET /metrics`: the metrics, as Prometheus reads them.
async fn metrics(Extract(state): Extract<HttpState>) -> Response {
    match state.metrics.text() {
        Ok(text) => ([(CONTENT_TYPE, prometheus::CONTENT_TYPE)], text).into_response(),
        Err(_) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written").into_response()
        }
    }
}

/// `GET /metrics/summary`: the same for people.
async fn summary(Extract(state): Extract<HttpState>) -> String {
    state.metrics.summary() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_thread_that_panicked_is_unwell_and_says_why() {
        let (thread, reason) = ("mooncake-heartbeat".to_owned(), "\"a\" != \\b\n".to_owned());
        let broken = BrokenThread { thread, reason };
        let unwell = StatusCode::SERVICE_UNAVAILABLE;
        for (well, unreached, broken, expected) in [
            (Some(true), false, None, (StatusCode::OK, r#"{"status":"healthy","code":0,"#)),
            (None, false, None, (unwell, r#"{"status":"not_initialized","code":1,"#)),
            (Some(false), true, None, (unwell, r#"{"status":"master_unreachable","code":2,"#)),
            (Some(true), true, None, (unwell, r#"{"status":"unreachable","code":4,"#)),
            (
                Some(true),
                true,
                Some(&broken),
                (
                    unwell,
                    r#"{"status":"broken","code":3,"reason":"the thread mooncake-heartbeat panicked: 'a' != /b ","#,
                ),
            ),
        ] {
            let (status, body) = answer(well, unreached, broken);
            assert_eq!((status, body), (expected.0, format!("{}{}}}", expected.1, versions())));
        }
    }
}
