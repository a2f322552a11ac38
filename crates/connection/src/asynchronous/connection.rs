use std::io;
use std::time::Duration;

use bytes::Bytes;
use mooncake_memory::PrivateWhile;
use mooncake_wire::Kind;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::AsyncInbox;
use crate::Fault;
use crate::codec::{Awaited, refused};

/// Most bytes of the send buffer that stay allocated for the next question.
const KEPT_OUTBOX_BYTES: usize = 4 << 10;

/// One connection, used by one task at a time. After any error, and after a call that was cancelled, drop it.
#[derive(Debug)]
pub struct AsyncConnection {
    /// Dropped before the stream, whose number may belong to another descriptor afterwards.
    _private: PrivateWhile,
    stream: TcpStream,
    inbox: AsyncInbox,
    outbox: Vec<u8>,
    last_id: u64,
}

impl AsyncConnection {
    pub(super) fn new((private, stream): (PrivateWhile, TcpStream)) -> Self {
        let (inbox, outbox) = (AsyncInbox::default(), Vec::new());
        Self { _private: private, stream, inbox, outbox, last_id: 0 }
    }

    /// Sends the frame that `encode` appends for the request id it is given. Waits for the reply of kind `awaited`, and
    /// returns its body.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] if that took longer than `within`. [`Fault::Refused`] if the peer replies with a refusal;
    /// otherwise the fault that broke the connection.
    pub async fn call(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: Kind,
        within: Duration,
    ) -> Result<Bytes, Fault> {
        self.ask(encode, &[awaited], within).await.map(|(_, body)| body)
    }

    /// Like [`AsyncConnection::call`], for a reply of any of these kinds.
    pub(super) async fn ask(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: &[Kind],
        within: Duration,
    ) -> Result<(Kind, Bytes), Fault> {
        self.last_id += 1;
        self.outbox.clear();
        self.outbox.shrink_to(KEPT_OUTBOX_BYTES);
        encode(&mut self.outbox, self.last_id);
        timeout(within, self.exchange(awaited)).await.unwrap_or(Err(Fault::TimedOut))
    }

    /// Sends what is in the outbox, and waits for the reply to it.
    async fn exchange(&mut self, awaited: &[Kind]) -> Result<(Kind, Bytes), Fault> {
        self.stream.write_all(&self.outbox).await?;
        let kinds = [awaited, &[Kind::Refusal]].concat();
        let awaited = Awaited { request_id: Some(self.last_id), ..Awaited::any_of(&kinds) };
        loop {
            match self.inbox.next_frame(&awaited)? {
                Some((header, body)) if header.kind == Kind::Refusal => return Err(refused(&body)),
                Some((header, body)) => return Ok((header.kind, body)),
                None if self.inbox.fill(&mut self.stream).await? > 0 => {}
                None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        }
    }
}
