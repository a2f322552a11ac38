//! The connections of a server, and their limits in number and time.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mooncake_memory::Private;
use mooncake_tls::{PrivateStream, Protocol, Tls};
use mooncake_types::{LogLimiter, descriptor_remedy};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::Limits;

/// How long requests in flight may still take when the server stops.
const FAREWELL: Duration = Duration::from_millis(200);

/// Serves until `stopping` becomes true. Requests in flight then have [`FAREWELL`] to end.
pub(crate) async fn serve(
    listener: TcpListener,
    (router, tls): (Router, Option<Tls>),
    limits: Limits,
    stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    let mut stop = stopping.clone();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            (stream, place) = accept(&listener, &places) => {
                let served = (router.clone(), tls.clone());
                open.spawn(run(stream, served, limits, stopping.clone(), place));
            }
            // If a handler panicked, its connection has ended, and the panic hook has reported it.
            Some(_) = open.join_next() => {}
        }
    }
    drop(listener);
    let parted = timeout(FAREWELL, async { while open.join_next().await.is_some() {} }).await;
    if parted.is_err() {
        debug!("requests that took too long were cut off");
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender, which is the server, was dropped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Waits for a free place, then accepts the next connection.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let place = Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                static SAID: LogLimiter<io::ErrorKind> = LogLimiter::new();
                if let Some(further) = SAID.admit(error.kind(), Instant::now()) {
                    let remedy = descriptor_remedy(error.raw_os_error());
                    warn!(%error, further, "cannot accept an HTTP connection{remedy}");
                }
                // Most likely the process has no free file descriptor. Some become free as connections end.
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves one connection. Its place becomes free at the end.
async fn run(
    stream: TcpStream,
    (router, tls): (Router, Option<Tls>),
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    _place: OwnedSemaphorePermit,
) {
    if let Err(error) = prepare(&stream, limits.stall) {
        return debug!(%error, "a connection was lost before it was served");
    }
    let stream = match secured(stream, tls) {
        Ok(secured) => secured,
        Err(error) => return debug!(%error, "a connection was lost before it was served"),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}

/// The connection, encrypted if there are certificates.
fn secured(stream: TcpStream, tls: Option<Tls>) -> io::Result<PrivateStream> {
    let Some(tls) = tls else { return Ok(PrivateStream::new(stream)) };
    PrivateStream::hand_over(tls.accept(Private::new(stream.into_std()?), Protocol::Http)?)
}

/// Sets the socket's options. The kernel ends the connection if the peer acknowledges nothing for `stall`.
fn prepare(stream: &TcpStream, stall: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_user_timeout(Some(stall))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::{self, JoinHandle};

    use axum::body::{Body, Bytes};
    use axum::routing::get;
    use futures_core::Stream;
    use tokio::runtime::Builder;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::from_millis(200);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    struct Endless;

    impl Stream for Endless {
        type Item = Result<Bytes, Infallible>;

        fn poll_next(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Self::Item>> {
            std::task::Poll::Ready(Some(Ok(Bytes::from_static(&[b'x'; 4096]))))
        }
    }

    struct Running {
        address: SocketAddr,
        stop: watch::Sender<bool>,
        thread: JoinHandle<()>,
    }

    fn start(limits: Limits) -> Running {
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/endless", get(async || Body::from_stream(Endless)))
            .route("/never", get(async || std::future::pending::<&str>().await));
        let listener = crate::listen("127.0.0.1", 0).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (stop, stopping) = watch::channel(false);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                serve(listener, (router, None), limits, stopping).await;
            });
        });
        Running { address, stop, thread }
    }

    impl Running {
        fn send(&self, bytes: &[u8]) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).expect("the port is open");
            stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
            stream.write_all(bytes).expect("the server reads");
            stream
        }

        /// Checks that the server still answers other clients.
        fn assert_answers(&self) {
            let answer = rest(self.send(REQUEST));
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }

        fn stop(self) {
            self.stop.send_replace(true);
            self.thread.join().expect("the server does not panic");
        }
    }

    /// All bytes until the server closes the connection. Panics if it does not close.
    fn rest(mut stream: TcpStream) -> String {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the server closes");
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_request_that_is_not_finished_in_time_ends() {
        let server = start(Limits { head: SHORT, ..Limits::default() });
        let kept_alive = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let halves =
            ["", "G", "GET / HTTP/1.1\r\nHos", "GET / HTTP/1.1\r\nHost: x\r\n", kept_alive];
        for half in halves {
            let begin = Instant::now();
            let answer = rest(server.send(half.as_bytes()));
            assert_eq!(
                answer.starts_with("HTTP/1.1 200"),
                half == kept_alive,
                "{half:?}: {answer}"
            );
            assert!(begin.elapsed() >= SHORT / 2, "{half:?} ended too early");
            server.assert_answers();
        }
        server.stop();
    }

    #[test]
    fn a_head_that_trickles_in_has_no_more_time() {
        let server = start(Limits { head: SHORT, ..Limits::default() });
        let mut stream = server.send(b"GET / HTTP/1.1\r\n");
        let begin = Instant::now();
        while stream.write_all(b"a: b\r\n").is_ok() {
            assert!(begin.elapsed() < PATIENCE, "the server goes on waiting");
            thread::sleep(Duration::from_millis(20));
        }
        server.assert_answers();
        server.stop();
    }

    #[test]
    fn more_connections_wait_until_one_ends() {
        let server = start(Limits { connections: 2, ..Limits::default() });
        let first = server.send(b"");
        let _second = server.send(b"");
        let mut third = server.send(REQUEST);
        third.set_read_timeout(Some(SHORT)).expect("a socket");
        let early = third.read(&mut [0]).expect_err("there is no place for a third");
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        third.set_read_timeout(Some(PATIENCE)).expect("a socket");
        assert!(rest(third).starts_with("HTTP/1.1 200"));
        server.stop();
    }

    #[test]
    fn silent_connections_give_their_places_back() {
        let server = start(Limits { connections: 2, head: SHORT, ..Limits::default() });
        let silent: Vec<TcpStream> = (0..6).map(|_| server.send(b"GET")).collect();
        server.assert_answers();
        drop(silent);
        server.stop();
    }

    #[test]
    fn a_reader_that_stops_reading_gives_its_place_back() {
        let server = start(Limits { connections: 1, stall: SHORT, ..Limits::default() });
        let stalled = server.send(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
        server.assert_answers();
        drop(stalled);
        server.stop();
    }

    #[test]
    fn requests_that_never_end_do_not_keep_the_server() {
        let server = start(Limits::default());
        let mut never = server.send(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n");
        server.assert_answers();
        let begin = Instant::now();
        server.stop();
        assert!(begin.elapsed() < PATIENCE);
        assert_eq!(never.read(&mut [0]).expect("closed"), 0);
    }
}
