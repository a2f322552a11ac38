//! The connections of a server, and their limits in number and time.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use mooncake_memory::Private;
use mooncake_tls::{PrivateStream, Protocol, Tls};
use mooncake_types::{FairPlaces, LogLimiter, descriptor_remedy};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
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
    let places = Arc::new(Mutex::new(FairPlaces::new(limits.connections)));
    let mut open = JoinSet::new();
    let mut stop = stopping.clone();
    loop {
        tokio::select! {
            () = stopped(&mut stop) => break,
            (stream, address) = accept(&listener) => {
                let served = (router.clone(), tls.clone());
                let place = Place::take(&places, address);
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

type Places = Mutex<FairPlaces<Arc<Notify>>>;

/// The place of a connection, which is free again on drop.
struct Place {
    places: Arc<Places>,
    number: u64,
    /// Notified when another connection gets the place.
    given_up: Arc<Notify>,
}

impl Place {
    fn take(places: &Arc<Places>, address: IpAddr) -> Self {
        let given_up = Arc::new(Notify::new());
        let (number, of_another) = lock(places).take(address, Arc::clone(&given_up));
        // A connection that does not wait for it yet finds the notice later.
        of_another.iter().for_each(|end| end.notify_one());
        Self { places: Arc::clone(places), number, given_up }
    }

    fn set_busy(&self, is_busy: bool) {
        lock(&self.places).set_busy(self.number, is_busy);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places).give_back(self.number);
    }
}

fn lock(places: &Places) -> MutexGuard<'_, FairPlaces<Arc<Notify>>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts the next connection.
async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer.ip()),
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

/// Serves one connection until it ends, or another gets its place.
async fn run(
    stream: TcpStream,
    (router, tls): (Router, Option<Tls>),
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    place: Place,
) {
    if let Err(error) = prepare(&stream, limits.stall) {
        return debug!(%error, "a connection was lost before it was served");
    }
    let stream = match secured(stream, tls) {
        Ok(secured) => secured,
        Err(error) => return debug!(%error, "a connection was lost before it was served"),
    };
    let router = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| answer(&router, &place, request)),
        );
    let mut connection = pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = place.given_up.notified() => {
            return debug!("a connection was closed for another: there are too many");
        }
        () = stopped(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        debug!(%error, "a connection ended early");
    }
}

async fn answer(
    service: &TowerToHyperService<Router>,
    place: &Place,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    place.set_busy(true);
    let answered = service.call(request).await;
    place.set_busy(false);
    answered
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
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread::{self, JoinHandle};

    use axum::body::{Body, Bytes};
    use axum::routing::{get, post};
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
            .route("/body", post(async |body: Bytes| body))
            .route(
                "/soon",
                get(async || {
                    sleep(2 * SHORT).await;
                    "at last"
                }),
            )
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
    fn whoever_takes_up_all_places_keeps_nobody_out() {
        let kept_alive = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let unfinished = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";
        let halves: [&[u8]; 5] =
            [b"", b"GET / HT", kept_alive, unfinished, b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n"];
        for half in halves {
            let server = start(Limits { connections: 2, ..Limits::default() });
            let crowd: Vec<TcpStream> = (0..20).map(|_| server.send(half)).collect();
            let begin = Instant::now();
            server.assert_answers();
            assert!(begin.elapsed() < PATIENCE / 2, "{half:?}");
            drop(crowd);
            server.stop();
        }
    }

    #[test]
    fn a_connection_without_a_request_goes_before_one_that_is_answered() {
        let server = start(Limits { connections: 2, ..Limits::default() });
        let mut answered =
            server.send(b"GET /soon HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        server.assert_answers();
        for _ in 0..5 {
            let mut idle = server.send(b"");
            server.assert_answers();
            assert_eq!(idle.read(&mut [0]).expect("closed"), 0);
        }
        let mut bytes = String::new();
        answered.read_to_string(&mut bytes).expect("the server closes");
        assert!(bytes.ends_with("at last"), "{bytes}");
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
