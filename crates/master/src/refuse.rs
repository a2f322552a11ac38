//! Refuses a peer, in a way that the peer gets to read.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use mooncake_types::{Access, ClientId, ErrorCode, LogLimiter, Rights};
use mooncake_wire::Refusal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::accept::Peer;

/// How long a refused peer has to read why.
const LINGER: Duration = Duration::from_secs(1);

/// Most bytes of a refused peer that are read and discarded.
const LINGER_BYTES: usize = 1 << 20;

/// Sends a refusal and closes.
pub(crate) async fn refuse(stream: &mut TcpStream, request_id: u64, refusal: &Refusal) {
    let mut bytes = Vec::new();
    mooncake_wire::encode_refusal(&mut bytes, request_id, refusal);
    send_and_close(stream, &bytes).await;
}

/// A refusal of input that is no frame, or none that is expected here.
pub(crate) fn malformed(message: String) -> Refusal {
    Refusal { code: ErrorCode::InvalidParams, message }
}

/// Sends `bytes` and closes. For a while it reads what the peer still sends: a close with unread input would reset
/// the connection, and the peer would lose `bytes`.
pub(crate) async fn send_and_close(stream: &mut TcpStream, bytes: &[u8]) {
    let say = async {
        stream.write_all(bytes).await?;
        stream.shutdown().await?;
        let mut dropped = [0; 4096];
        let mut total = 0;
        while total < LINGER_BYTES {
            match stream.read(&mut dropped).await? {
                0 => break,
                count => total += count,
            }
        }
        std::io::Result::Ok(())
    };
    // An error is ignored, because the connection is closed next.
    let _ = timeout(LINGER, say).await;
}

/// Logs that a peer was refused: one line for each host and error, however often its peers come.
pub(crate) fn log(peer: Peer, code: ErrorCode, message: &str) {
    static TURNED_AWAY: LogLimiter<(Option<IpAddr>, ErrorCode)> = LogLimiter::new();
    match TURNED_AWAY.admit((peer.host(), code), Instant::now()) {
        Some(further) => warn!(%peer, message, further, "a peer was turned away"),
        None => debug!(%peer, message, "refused"),
    }
}

/// Logs that a client asked for what its token does not allow, or for keys of a tenant to which the token is not bound:
/// one line for each right that is needed, now and then.
pub(crate) fn log_denied(client: ClientId, has: &Access, needs: Rights) {
    // Clients choose their ids.
    static DENIED: LogLimiter<Rights> = LogLimiter::new();
    if let Some(further) = DENIED.admit(needs, Instant::now()) {
        warn!(%client, %has, %needs, further, "a request is denied: the client's token does not allow it");
    }
}
