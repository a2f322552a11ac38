//! The handshakes of both sides, on the threads of this crate.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_memory::Private;
use mooncake_types::{FairPlaces, LogLimiter};
use rustls::ServerConfig;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tracing::{debug, warn};

use crate::{PrivateStream, Tls, relay};

/// How long a client may take for the handshake.
const PATIENCE: Duration = Duration::from_secs(5);

/// Handshakes that clients have begun and not ended. For one more, another of the address with the most is cut off.
static SHAKING: Mutex<FairPlaces<Arc<Notify>>> = Mutex::new(FairPlaces::new(1024));

/// What is spoken inside, as far as clients ask for it by name (ALPN).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Frames of this project, and gRPC on the same port.
    FramesOrGrpc,
    /// HTTP/1.1.
    Http,
}

impl Protocol {
    fn names(self) -> Vec<Vec<u8>> {
        match self {
            Protocol::FramesOrGrpc => vec![b"h2".to_vec()],
            Protocol::Http => vec![b"http/1.1".to_vec()],
        }
    }
}

impl Tls {
    /// Shakes hands as the client with the server at the other end, which was addressed as `host`. The result carries
    /// the bytes of both sides in the clear; `stream` itself stays with a thread of this crate.
    ///
    /// # Errors
    /// The server is not who it should be, does not speak TLS, or does not answer within `within`.
    pub fn connect(
        &self,
        stream: Private<TcpStream>,
        host: &str,
        within: Duration,
    ) -> io::Result<Private<TcpStream>> {
        let (tell, told) = sync_channel(1);
        let (tls, host) = (self.clone(), host.to_owned());
        relay::spawn(async move {
            let shaken = timeout(within, tls.greet_server(stream, &host)).await;
            // The caller may have given up.
            let _ = tell.send(shaken.unwrap_or_else(|_| Err(late())));
        })?;
        // A little longer, so that the handshake itself says that it is late.
        match told.recv_timeout(within.saturating_add(Duration::from_millis(100))) {
            Ok(shaken) => shaken,
            Err(RecvTimeoutError::Timeout) => Err(late()),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("TLS has ended")),
        }
    }

    /// Like [`Tls::connect`], for a task of tokio. The result does not block.
    ///
    /// # Errors
    /// Those of [`Tls::connect`].
    pub async fn connect_async(
        &self,
        stream: Private<TcpStream>,
        host: &str,
        within: Duration,
    ) -> io::Result<Private<TcpStream>> {
        let (tls, host) = (self.clone(), host.to_owned());
        let shaken = run(async move { tls.greet_server(stream, &host).await }, within).await?;
        shaken.set_nonblocking(true)?;
        Ok(shaken)
    }

    /// Serves TLS on a connection that was accepted. The result carries the bytes of both sides in the clear, and blocks.
    /// It is there at once: the client's bytes come once the handshake is over, and none come if it fails, which is
    /// logged.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub fn accept(
        &self,
        stream: Private<TcpStream>,
        protocol: Protocol,
    ) -> io::Result<Private<TcpStream>> {
        let (program, own) = Private::pair()?;
        let tls = self.clone();
        relay::spawn(async move {
            let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
            if let Err(error) = tls.serve(stream, protocol, own).await {
                // Peers choose what their certificates say, and so most of the text.
                static SAID: LogLimiter<ErrorKind> = LogLimiter::new();
                match SAID.admit(error.kind(), Instant::now()) {
                    Some(further) => warn!(peer, %error, further, "a peer was turned away"),
                    None => debug!(peer, %error, "a peer was turned away"),
                }
            }
        })?;
        Ok(program.convert::<OwnedFd>().convert())
    }

    async fn greet_server(
        &self,
        stream: Private<TcpStream>,
        host: &str,
    ) -> io::Result<Private<TcpStream>> {
        let name = self.0.name_of(host).ok_or_else(|| {
            let reason = format!("{host} can be in no certificate");
            io::Error::new(io::ErrorKind::InvalidInput, reason)
        })?;
        let stream = PrivateStream::hand_over(stream)?;
        let connector = TlsConnector::from(self.0.configs().client);
        let shaken = connector.connect(name, stream).await.map_err(|error| told(&error))?;
        let (program, own) = Private::pair()?;
        tokio::spawn(relay::relay(shaken, own));
        Ok(program.convert::<OwnedFd>().convert())
    }

    /// Shakes hands as the server, then moves bytes until the connection ends.
    async fn serve(
        &self,
        stream: Private<TcpStream>,
        protocol: Protocol,
        own: Private<UnixStream>,
    ) -> io::Result<()> {
        let place = Handshake::begin(stream.peer_addr()?.ip());
        let Some(config) = self.0.configs().server else {
            return Err(io::Error::other("TLS: this process has no certificate (tls_cert)"));
        };
        let mut config = ServerConfig::clone(&config);
        config.alpn_protocols = protocol.names();
        let stream = PrivateStream::hand_over(stream)?;
        let shaking = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let shaken = tokio::select! {
            shaken = timeout(PATIENCE, shaking) => shaken.unwrap_or_else(|_| Err(late())),
            () = place.given_up.notified() => Err(io::Error::other("too many handshakes at a time")),
        };
        let shaken = shaken.map_err(|error| told(&error))?;
        drop(place);
        relay::relay(shaken, own).await
    }
}

/// A handshake that a client has begun, until it is dropped.
struct Handshake {
    number: u64,
    /// Notified when it gives way to another.
    given_up: Arc<Notify>,
}

impl Handshake {
    fn begin(address: IpAddr) -> Self {
        let given_up = Arc::new(Notify::new());
        let (number, of_another) = shaking().take(address, Arc::clone(&given_up));
        of_another.iter().for_each(|end| end.notify_one());
        Self { number, given_up }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        shaking().give_back(self.number);
    }
}

fn shaking() -> MutexGuard<'static, FairPlaces<Arc<Notify>>> {
    SHAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for work that a thread of this crate does.
async fn run(
    work: impl Future<Output = io::Result<Private<TcpStream>>> + Send + 'static,
    within: Duration,
) -> io::Result<Private<TcpStream>> {
    let (tell, done) = oneshot::channel();
    relay::spawn(async move {
        let shaken = timeout(within, work).await;
        let _ = tell.send(shaken.unwrap_or_else(|_| Err(late())));
    })?;
    done.await.unwrap_or_else(|_| Err(io::Error::other("TLS has ended")))
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake did not end in time")
}

/// The error of a handshake, in words that say what to look at.
fn told(error: &io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let hint = match inner {
        Some(rustls::Error::InvalidMessage(_)) => "; the peer does not speak TLS",
        Some(rustls::Error::InvalidCertificate(_)) => {
            "; see tls_ca, and the names in the peer's certificate"
        }
        Some(rustls::Error::NoCertificatesPresented) => "; the peer shows no certificate",
        Some(rustls::Error::AlertReceived(_)) => "; the peer refuses the certificate of this side",
        None if error.kind() == io::ErrorKind::UnexpectedEof => "; does the peer speak TLS?",
        _ => "",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}{hint}"))
}
