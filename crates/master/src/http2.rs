//! Connections that begin with the preface of HTTP/2: another part of the process serves them, if one wants to.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::net::TcpStream;
use tracing::debug;

/// The first bytes of a connection that speaks HTTP/2, as far as they tell it from anything else.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2";

/// Takes a connection, in non-blocking mode, and what was read from it.
type Take = dyn Fn(std::net::TcpStream, Bytes) + Send + Sync;

/// Where connections go that speak HTTP/2.
#[derive(Clone)]
pub struct Http2Door(Arc<Take>);

impl fmt::Debug for Http2Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Door").finish_non_exhaustive()
    }
}

impl Http2Door {
    /// Hands each connection, in non-blocking mode, to `take`, with the bytes that were read from it. `take` must not
    /// block.
    pub fn new(take: impl Fn(std::net::TcpStream, Bytes) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub(crate) fn pass(&self, stream: TcpStream, first: Bytes) {
        match stream.into_std() {
            Ok(stream) => (self.0)(stream, first),
            Err(error) => debug!(%error, "an HTTP/2 connection was lost before it was served"),
        }
    }
}
