use std::io;
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use mooncake_memory::{Private, PrivateWhile};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A stream of tokio's that forked children do not inherit.
#[derive(Debug)]
pub struct PrivateStream {
    /// Dropped before the stream, whose number may belong to another descriptor afterwards.
    _private: PrivateWhile,
    stream: TcpStream,
}

impl PrivateStream {
    /// Takes a stream from its owner. A child forked before this call inherits it.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        Self { _private: PrivateWhile::open(&stream), stream }
    }

    /// Gives a socket to the runtime of the running task.
    ///
    /// # Errors
    /// The system's.
    pub fn hand_over(stream: Private<StdStream>) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (private, stream) = stream.hand_over(TcpStream::from_std)?;
        Ok(Self { _private: private, stream })
    }
}

impl AsyncRead for PrivateStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, room)
    }
}

impl AsyncWrite for PrivateStream {
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
