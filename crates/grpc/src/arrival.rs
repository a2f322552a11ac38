//! Connections that the master has accepted, and whose first bytes it has read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use mooncake_tls::PrivateStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::transport::server::Connected;

use crate::link::Link;

/// A connection that begins with the preface of HTTP/2.
#[derive(Debug)]
pub struct Arrival {
    /// The connection, in non-blocking mode.
    pub stream: std::net::TcpStream,
    /// What was read from it.
    pub first: Bytes,
}

/// A stream whose first bytes are read again.
pub(crate) struct Rewound {
    stream: PrivateStream,
    first: Bytes,
    link: Arc<Link>,
    /// One of the connections that may be open.
    _permit: OwnedSemaphorePermit,
}

impl Rewound {
    pub(crate) fn new(
        Arrival { stream, first }: Arrival,
        link: Link,
        permit: OwnedSemaphorePermit,
    ) -> io::Result<Self> {
        let stream = PrivateStream::new(TcpStream::from_std(stream)?);
        Ok(Self { stream, first, link: Arc::new(link), _permit: permit })
    }
}

impl Connected for Rewound {
    type ConnectInfo = Arc<Link>;

    fn connect_info(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let len = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..len]);
        self.first.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
