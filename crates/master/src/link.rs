use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mooncake_connection::{LOCAL_MARK, TrustedUsers};
use mooncake_types::ClientId;
use mooncake_types::limits::MAX_FRAME_BODY_BYTES;
use mooncake_wire::{Hello, Kind, Role, decode_refusal, decode_welcome, encode_hello};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::accept::local_stream;
use crate::config::Config;
use crate::input::{Frame, Input};

/// How long a connection may take, with its handshake.
const DIAL: Duration = Duration::from_secs(2);

/// How long one answer may take; shorter in tests.
const ANSWER: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// Most bytes of the send buffer that stay allocated for the next question.
const KEPT_BYTES: usize = 4 << 10;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    /// The other side cannot be reached, or is gone.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It did not answer in time.
    #[error("nothing came in time")]
    Silent,
    /// It refused.
    #[error("it was refused: {0}")]
    Refused(String),
    /// Its answer is invalid.
    #[error("{0}")]
    ImplausibleReport(String),
}

/// A connection to a leader or a node.
pub(crate) struct Link {
    stream: TcpStream,
    input: Input,
    out: Vec<u8>,
    last_id: u64,
}

impl Link {
    /// Connects, and shakes hands.
    pub(crate) async fn open(address: &str, config: &Config) -> Result<Link, LinkError> {
        timeout(DIAL, Self::dial(address, config)).await.unwrap_or(Err(LinkError::Silent))
    }

    async fn dial(address: &str, config: &Config) -> Result<Link, LinkError> {
        let stream = match address.strip_prefix(LOCAL_MARK) {
            Some(name) => connect_locally(name).await?,
            None => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let mut link = Link { stream, input: Input::default(), out: Vec::new(), last_id: 0 };
        let hello = Hello {
            cluster_id: config.cluster_id.clone(),
            auth_token: config.auth_token.clone(),
            // The id is that of no client: it puts and lends nothing.
            ..Hello::new(Role::Client, ClientId(u128::MAX))
        };
        let frame = link.exchange(Kind::Welcome, |out, id| encode_hello(out, id, &hello)).await?;
        decode_welcome(&frame.body)
            .map_err(|error| LinkError::ImplausibleReport(error.to_string()))?;
        Ok(link)
    }

    /// Sends a frame and waits for its answer, which is of this kind.
    pub(crate) async fn ask(
        &mut self,
        kind: Kind,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Frame, LinkError> {
        timeout(ANSWER, self.exchange(kind, encode)).await.unwrap_or(Err(LinkError::Silent))
    }

    async fn exchange(
        &mut self,
        kind: Kind,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<Frame, LinkError> {
        self.last_id += 1;
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        encode(&mut self.out, self.last_id);
        self.stream.write_all(&self.out).await?;
        let frame = self.receive().await?;
        let header = frame.header;
        match header.kind {
            Kind::Refusal => {
                let refusal = decode_refusal(&frame.body);
                Err(LinkError::Refused(
                    refusal.map_or_else(|it| it.to_string(), |it| it.to_string()),
                ))
            }
            found if found != kind => Err(LinkError::ImplausibleReport(format!(
                "a {found:?} frame came instead of a {kind:?} one"
            ))),
            _ if header.request_id != self.last_id => Err(LinkError::ImplausibleReport(format!(
                "the answer to {} came",
                header.request_id
            ))),
            _ => Ok(frame),
        }
    }

    async fn receive(&mut self) -> Result<Frame, LinkError> {
        loop {
            let frame = self.input.next_frame(MAX_FRAME_BODY_BYTES);
            if let Some(frame) =
                frame.map_err(|error| LinkError::ImplausibleReport(error.to_string()))?
            {
                return Ok(frame);
            }
            if self.input.fill(&mut self.stream).await? == 0 {
                return Err(LinkError::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Connects to a process of this host and user.
async fn connect_locally(name: &str) -> io::Result<TcpStream> {
    let stream = UnixStream::connect(format!("\0{name}")).await?;
    TrustedUsers::Own.check(stream.as_fd()).map_err(io::Error::other)?;
    local_stream(stream)
}
