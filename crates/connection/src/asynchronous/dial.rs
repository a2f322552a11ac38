use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mooncake_memory::{Private, PrivateWhile};
use mooncake_wire::{Kind, Welcome, encode_hello, encode_proof};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::AsyncConnection;
use crate::dial::{Attempts, host_of, prepare};
use crate::{Answered, Dialer, Fault, LOCAL_MARK, on_answer};

/// A stream of tokio's, and what keeps it from children: that must be dropped first.
type Stream = (PrivateWhile, TcpStream);

impl Dialer {
    /// Like [`Dialer::dial`], for a task of tokio.
    ///
    /// # Errors
    /// Those of [`Dialer::dial`].
    pub async fn dial_async(
        &self,
        endpoint: &str,
        within: Duration,
    ) -> Result<(AsyncConnection, Welcome), Fault> {
        let begun = Instant::now();
        let connected = timeout(within, self.connect_async(endpoint, within)).await;
        let mut connection = connected.unwrap_or(Err(Fault::TimedOut))?;
        let hello = |out: &mut Vec<u8>, id| encode_hello(out, id, &self.hello);
        let left = || within.saturating_sub(begun.elapsed());
        let kinds = [Kind::Welcome, Kind::Challenge];
        let answer = connection.ask(hello, &kinds, left()).await?;
        let asked = match on_answer(&self.hello, answer)? {
            Answered::Welcomed(welcome) => return Ok((connection, welcome)),
            Answered::Asked(asked) => asked,
        };
        let proof = |out: &mut Vec<u8>, id| encode_proof(out, id, &asked.proof);
        let body = connection.call(proof, Kind::Welcome, left()).await?;
        let welcome = asked.on_welcome(&body)?;
        Ok((connection, welcome))
    }

    async fn connect_async(
        &self,
        endpoint: &str,
        within: Duration,
    ) -> Result<AsyncConnection, Fault> {
        if let Some(name) = endpoint.strip_prefix(LOCAL_MARK) {
            let stream = self.trusted.connect(name, None)?.hand_over(TcpStream::from_std)?;
            return Ok(AsyncConnection::new(stream));
        }
        let mut attempts = Attempts::default();
        for address in self.resolve_async(endpoint, within).await? {
            if let Some(stream) = attempts.take(self.connect_to(address, endpoint, within).await)? {
                return Ok(AsyncConnection::new(stream));
            }
        }
        Err(attempts.into())
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        endpoint: &str,
        within: Duration,
    ) -> io::Result<Stream> {
        let connected = connect_to(address).await?;
        let Some(tls) = &self.tls else { return Ok(connected) };
        let stream = take_back(connected)?;
        let secured = tls.connect_async(stream, host_of(endpoint), within).await?;
        secured.hand_over(TcpStream::from_std)
    }

    /// An address needs no thread, a name waits on one of the runtime's.
    async fn resolve_async(&self, endpoint: &str, within: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = endpoint.parse() {
            return Ok(vec![address]);
        }
        let (resolver, endpoint) = (self.resolver.clone(), endpoint.to_owned());
        let resolved = spawn_blocking(move || resolver.resolve(&endpoint, within)).await;
        resolved.map_err(io::Error::other)?
    }
}

async fn connect_to(address: SocketAddr) -> io::Result<Stream> {
    let connecting = Private::begin_connect(address)?.hand_over(TcpStream::from_std)?;
    let (_, stream) = &connecting;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    prepare(stream)?;
    Ok(connecting)
}

/// Takes the socket back from the runtime.
fn take_back((private, stream): Stream) -> io::Result<Private<std::net::TcpStream>> {
    drop(private);
    stream.into_std().map(Private::new)
}
