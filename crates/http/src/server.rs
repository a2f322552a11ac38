use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::thread::{self, JoinHandle};

use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn;
use axum::{Extension, Router};
use mooncake_tls::Tls;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tracing::error;

use crate::Limits;
use crate::content::BodyLimits;
use crate::{connections, web_pages};

/// A server on a thread of its own. Dropping it stops it, without waiting for the thread.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    /// Its sender is dropped when the thread has served its last connection.
    ended: watch::Receiver<()>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Server {
    /// Serves the connections of `listener` (see [`crate::listen`]), over HTTPS if there are certificates. `name` is the
    /// name of the thread, at most 15 bytes.
    ///
    /// # Errors
    /// If the system refuses a thread or the resources of a runtime.
    pub fn start(
        name: &'static str,
        listener: TcpListener,
        router: Router,
        limits: Limits,
        tls: Option<Tls>,
    ) -> io::Result<Server> {
        let address = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = watch::channel(());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let router = router
            .layer(from_fn(web_pages::refuse_changes))
            .layer(DefaultBodyLimit::max(limits.body_bytes))
            .layer(Extension(BodyLimits { time: limits.body, bytes: limits.body_bytes }));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = runtime.block_on(serve(listener, (router, tls), limits, stopping)) {
                error!(%error, "the {name} server failed");
            }
            runtime.shutdown_background();
            drop(end);
        })?;
        Ok(Server { address, stop, ended, thread: Mutex::new(Some(thread)) })
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and closes idle ones. Requests in flight have 200 ms to end.
    pub fn begin_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Stops the server, and waits for its end without blocking the thread.
    pub async fn stopped(&self) {
        self.begin_stop();
        let mut ended = self.ended.clone();
        // Nothing is ever sent. An error means that the thread has ended.
        while ended.changed().await.is_ok() {}
    }

    /// Stops the server, and blocks until it has ended.
    pub fn stop(&self) {
        self.begin_stop();
        let thread = self.thread.lock().expect("no holder of the thread panicked").take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            error!(address = %self.address, "the thread of an HTTP server panicked");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.begin_stop();
    }
}

async fn serve(
    listener: TcpListener,
    served: (Router, Option<Tls>),
    limits: Limits,
    stopping: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    connections::serve(listener, served, limits, stopping).await;
    Ok(())
}
