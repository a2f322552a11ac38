//! Admits a connection: the first frame must be a HELLO that fits this cluster.

use std::time::Duration;

use bytes::Bytes;
use mooncake_connection::codec::{Awaited, BadFrame};
use mooncake_connection::{Admitted, AsyncInbox, Challenge, Roles};
use mooncake_meta::Meta;
use mooncake_types::{Access, ClientId, ErrorCode, Rights};
use mooncake_wire::{
    Expected, Header, Hello, Kind, MAX_HANDSHAKE_BODY_BYTES, Mac, Refusal, Welcome,
    foreign_protocol,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::accept::Peer;
use crate::config::Config;
use crate::http2::PREFACE;
use crate::refuse::{self, malformed, send_and_close};

/// How long a new connection may take to send its HELLO.
const PATIENCE: Duration = Duration::from_secs(5);

/// The first frame of each connection.
const HELLO: Awaited<'static> =
    Awaited { max_body: MAX_HANDSHAKE_BODY_BYTES, ..Awaited::any_of(&[Kind::Hello]) };

/// The answer to a challenge.
const PROOF: Awaited<'static> =
    Awaited { max_body: MAX_HANDSHAKE_BODY_BYTES, ..Awaited::any_of(&[Kind::Proof]) };

/// Why a connection is not admitted.
#[derive(Debug)]
pub(crate) enum Rejected {
    /// The peer closed the connection without sending anything.
    Gone,
    /// The peer speaks HTTP, of version 1.
    Http,
    /// The peer speaks HTTP/2. These are all bytes that it has sent so far.
    Http2(Bytes),
    /// The peer gets this refusal. It speaks this protocol, or an unknown one.
    Refused { request_id: u64, refusal: Refusal },
}

/// A HELLO that fits this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) client: ClientId,
    pub(crate) request_id: u64,
    /// What the client may do.
    pub(crate) access: Access,
    /// Proves that this master knows the client's token.
    mac: Option<Mac>,
}

impl Greeting {
    /// Appends the reply of a leader.
    pub(crate) fn welcome(&self, meta: &Meta, out: &mut Vec<u8>) {
        let shared_directory = meta.shared_directory().cloned();
        let mac = self.mac;
        let welcome = Welcome { shared_directory, mac, ..Welcome::new(meta.epoch()) };
        mooncake_wire::encode_welcome(out, self.request_id, &welcome);
    }
}

/// Waits for the HELLO and checks it.
pub(crate) async fn greet(
    config: &Config,
    stream: &mut TcpStream,
    inbox: &mut AsyncInbox,
) -> Result<Greeting, Rejected> {
    let until = Instant::now() + PATIENCE;
    let waited = timeout_at(until, first_frame(stream, inbox)).await;
    let (header, body) = waited.unwrap_or_else(|_| {
        let seconds = PATIENCE.as_secs();
        let hint = foreign_protocol(inbox.held());
        let hint =
            hint.map_or_else(String::new, |protocol| format!(": the peer speaks {protocol}"));
        Err(refused(0, malformed(format!("no HELLO came within {seconds} s{hint}"))))
    })?;
    let request_id = header.request_id;
    let hello = mooncake_wire::decode_hello(&body).map_err(|error| {
        refused(request_id, malformed(format!("the HELLO cannot be read: {error}")))
    })?;
    let Config { cluster_id, auth_token, .. } = config;
    let tokens = config.roles.as_ref().map(Roles::tokens);
    let roles = tokens.as_deref().unwrap_or_default();
    let expected = Expected { cluster_id, auth_token, roles };
    let drawn = Challenge::draw(&hello, &expected);
    let challenge = drawn.map_err(|refusal| refused(request_id, refusal))?;
    let (request_id, admitted) = match challenge {
        Some(challenge) => {
            let proved = prove((stream, inbox), (request_id, &challenge), &expected);
            let late = || malformed("no PROOF came in time".to_owned());
            timeout_at(until, proved).await.unwrap_or_else(|_| Err(refused(request_id, late())))?
        }
        None => (request_id, Admitted::BY_ALL),
    };
    let Admitted { access, mac } = admitted;
    check(&hello, &access).map_err(|refusal| refused(request_id, refusal))?;
    Ok(Greeting { client: hello.client, request_id, access, mac })
}

/// Has the peer prove that it knows a token. Returns the id of its answer, and what it may do.
async fn prove(
    (stream, inbox): (&mut TcpStream, &mut AsyncInbox),
    (request_id, challenge): (u64, &Challenge),
    expected: &Expected<'_>,
) -> Result<(u64, Admitted), Rejected> {
    let mut out = Vec::new();
    mooncake_wire::encode_challenge(&mut out, request_id, challenge.nonce());
    stream.write_all(&out).await.map_err(|_| Rejected::Gone)?;
    let (header, body) = loop {
        match inbox.next_frame(&PROOF) {
            Ok(Some(frame)) => break frame,
            Ok(None) if inbox.fill(stream).await.is_ok_and(|count| count > 0) => {}
            Ok(None) => return Err(Rejected::Gone),
            Err(error) => {
                let message = format!("a challenge is answered by a PROOF: {error}");
                return Err(refused(error.request_id(), malformed(message)));
            }
        }
    };
    let request_id = header.request_id;
    let proof = mooncake_wire::decode_proof(&body).map_err(|error| {
        refused(request_id, malformed(format!("the PROOF cannot be read: {error}")))
    })?;
    let admitted = challenge.check(&proof, expected);
    Ok((request_id, admitted.map_err(|refusal| refused(request_id, refusal))?))
}

fn check(hello: &Hello, access: &Access) -> Result<(), Refusal> {
    if !access.rights().include(Rights::MEMBER) {
        let message = format!("the auth token allows {access}: it is for the admin server alone");
        return Err(Refusal { code: ErrorCode::PermissionDenied, message });
    }
    match hello.client {
        ClientId::OPERATOR => Err(Refusal {
            code: ErrorCode::InvalidParams,
            message: "the client id must not be zero".to_owned(),
        }),
        _ => Ok(()),
    }
}

async fn first_frame(
    stream: &mut TcpStream,
    inbox: &mut AsyncInbox,
) -> Result<(Header, Bytes), Rejected> {
    loop {
        match inbox.next_frame(&HELLO) {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => {}
            Err(_) if inbox.held().starts_with(PREFACE) => {
                return Err(Rejected::Http2(Bytes::copy_from_slice(inbox.held())));
            }
            Err(_) if speaks_http(inbox.held()) => return Err(Rejected::Http),
            Err(error) => {
                return Err(refused(error.request_id(), malformed(first_words(&error))));
            }
        }
        match inbox.fill(stream).await {
            Ok(0) if inbox.held().is_empty() => return Err(Rejected::Gone),
            Ok(0) => {
                let len = inbox.held().len();
                let message =
                    format!("the connection ended after {len} bytes, before a whole HELLO");
                return Err(refused(0, malformed(message)));
            }
            Ok(_) => {}
            Err(_) => return Err(Rejected::Gone),
        }
    }
}

fn first_words(error: &BadFrame) -> String {
    if let BadFrame::OtherKind { header, .. } = error {
        return format!("the first frame must be a HELLO, this is a {:?}", header.kind);
    }
    format!("this is the RPC port of a Mooncake Store master, which expects a HELLO frame: {error}")
}

fn refused(request_id: u64, refusal: Refusal) -> Rejected {
    Rejected::Refused { request_id, refusal }
}

/// Whether the first bytes are those of an HTTP request.
fn speaks_http(first: &[u8]) -> bool {
    const STARTS: [&[u8]; 9] = [
        b"GET ",
        b"POST ",
        b"PUT ",
        b"HEAD ",
        b"DELETE ",
        b"OPTIONS ",
        b"PATCH ",
        b"TRACE ",
        b"CONNECT ",
    ];
    STARTS.iter().any(|start| first.starts_with(start))
}

/// Tells a peer that speaks HTTP where the admin server is, and closes the connection.
pub(crate) async fn refuse_http(stream: &mut TcpStream, peer: Peer, admin_port: u16) {
    refuse::log(peer, ErrorCode::RpcFail, "it speaks HTTP, and this is the RPC port");
    send_and_close(stream, http_answer(admin_port).as_bytes()).await;
}

/// The reply to a peer that speaks HTTP on this port.
fn http_answer(admin_port: u16) -> String {
    let text = format!(
        "This is the RPC port of a Mooncake Store master; it does not speak HTTP/1. \
         The admin HTTP server is on port {admin_port}.\n"
    );
    format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{text}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_told_from_other_bytes() {
        let http: [&[u8]; 2] = [b"GET / HTTP/1.1\r\n", b"POST /x HTTP/1.0"];
        for first in http {
            assert!(speaks_http(first));
        }
        let other: [&[u8]; 5] = [b"", b"KM\x01\x00", b"GETTING", b"\x16\x03\x01", PREFACE];
        for first in other {
            assert!(!speaks_http(first));
        }
    }

    #[test]
    fn the_answer_to_http_names_the_other_port() {
        let answer = http_answer(9003);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 400 "), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains("port 9003"), "{body}");
    }
}
