//! Taking connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tracing::{debug, warn};

/// Waits for the next connection that lives.
pub(crate) async fn accept(listener: &TcpListener, no_delay: bool) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => match prepare(&stream, no_delay) {
                Ok(()) => return (stream, peer),
                Err(error) => debug!(%peer, %error, "lost before it was served"),
            },
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                // Most likely there are no file descriptors left; they come back as connections end.
                sleep(Duration::from_millis(50)).await;
            }
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
