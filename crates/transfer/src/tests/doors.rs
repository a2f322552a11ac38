//! Every kind of frame at a data port and at its local socket, from outsiders and with each token, in the clear and over
//! TLS.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::{Connection, Fault, Roles};
use mooncake_testing::doors::{CALLERS, Secrets, Verdict, token_of, verdict_on};
use mooncake_tls::{Tls, TlsConfig};
use mooncake_types::ErrorCode;
use mooncake_wire::{Kind, Welcome};

use super::rig::{Node, server_config, tcp_config};
use crate::{ServerConfig, TcpConfig, local_socket};

/// How long the frame without an answer is waited for.
const MOMENT: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(10);

const READERS: &[&str] = &["read", "read,write", "all"];
const WRITERS: &[&str] = &["write", "read,write", "all"];
/// Standby masters.
const MASTERS: &[&str] = &["all"];
const NOBODY: &[&str] = &[];

/// Who may send a frame of this kind, to the port and to the local socket. All others are denied. Where nobody may, the
/// door does not know the kind.
fn senders(kind: Kind) -> [&'static [&'static str]; 2] {
    match kind {
        Kind::Read | Kind::Promise => [READERS; 2],
        Kind::Write | Kind::Drop => [WRITERS; 2],
        Kind::Follow => [MASTERS; 2],
        Kind::Share | Kind::Expose | Kind::Join | Kind::Pin | Kind::Unpin => [NOBODY, READERS],
        Kind::Begin => [NOBODY, WRITERS],
        Kind::Hello
        | Kind::Welcome
        | Kind::Refusal
        | Kind::Challenge
        | Kind::Proof
        | Kind::Request
        | Kind::Reply
        | Kind::ReadReply
        | Kind::WriteReply
        | Kind::DropReply
        | Kind::FollowReply
        | Kind::ShareReply
        | Kind::BeginReply
        | Kind::Complete
        | Kind::CompleteReply
        | Kind::PinReply
        | Kind::Keepalive
        | Kind::PromiseReply
        | Kind::Begun
        | Kind::JoinReply
        | Kind::DummyRequest
        | Kind::DummyReply => [NOBODY; 2],
    }
}

/// A node of a pool with secrets, and perhaps certificates.
struct Guarded {
    node: Node,
    tls: Option<Tls>,
    _secrets: Secrets,
}

impl Guarded {
    fn start(is_encrypted: bool) -> Self {
        let secrets =
            Secrets::write(&format!("data-{is_encrypted}-{:?}", std::thread::current().id()));
        let files = secrets.certificates.clone();
        let of = TlsConfig {
            cert: Some(files.cert),
            key: Some(files.key),
            ca: Some(files.ca),
            verify_clients: true,
            ..TlsConfig::default()
        };
        let tls = is_encrypted.then(|| Tls::open(of).expect("they are right"));
        let config = ServerConfig {
            auth_token: token_of("all").into(),
            roles: Some(Roles::open(&secrets.roles).expect("it is right")),
            tls: tls.clone(),
            ..server_config()
        };
        Self { node: Node::with_config(1, 4096, config), tls, _secrets: secrets }
    }

    fn config(&self, token: &str) -> TcpConfig {
        TcpConfig { auth_token: token.into(), tls: self.tls.clone(), ..tcp_config() }
    }

    fn dial(&self, token: &str, endpoint: &str) -> Result<(Connection, Welcome), Fault> {
        self.config(token).dialer().dial(endpoint, PATIENCE)
    }

    /// The port, and the local socket.
    fn doors(&self) -> [Arc<str>; 2] {
        let (_, welcome) = self.dial(&token_of("all"), &self.node.endpoint).expect("a member");
        let socket = welcome.local_socket.expect("it has one");
        [Arc::clone(&self.node.endpoint), local_socket::endpoint_of(&socket).into()]
    }
}

fn verdict(connection: &Connection, kind: Kind) -> Verdict {
    let mut stream = TcpStream::try_clone(connection.stream()).expect("descriptors are left");
    stream.set_read_timeout(Some(MOMENT)).expect("a socket");
    verdict_on(&mut stream, kind).expect("frames come back")
}

/// Whether a verdict says that the sender may not send the frame, or that the door does not know it.
fn is_refused(verdict: &Verdict, senders: &[&str]) -> bool {
    let (wanted, words) = match senders {
        [] => (ErrorCode::InvalidParams, "takes no"),
        _ => (ErrorCode::PermissionDenied, "the auth token allows"),
    };
    matches!(verdict, Verdict::Refused { code, message } if *code == wanted && message.contains(words))
}

#[test]
fn each_kind_of_frame_is_taken_from_those_alone_who_may_send_it() {
    for is_encrypted in [false, true] {
        let guarded = Guarded::start(is_encrypted);
        for (at, door) in guarded.doors().iter().enumerate() {
            for (caller, &kind) in
                CALLERS.iter().flat_map(|it| Kind::ALL.iter().map(move |kind| (it, kind)))
            {
                let senders = senders(kind)[at];
                let (connection, _) = guarded.dial(&token_of(caller), door).expect("it is known");
                let verdict = verdict(&connection, kind);
                let what =
                    format!("{kind:?} of {caller} at {door}, TLS: {is_encrypted}: {verdict:?}");
                assert_eq!(is_refused(&verdict, senders), !senders.contains(caller), "{what}");
            }
        }
    }
}

#[test]
fn an_outsider_gets_no_further_than_the_greeting() {
    for is_encrypted in [false, true] {
        let guarded = Guarded::start(is_encrypted);
        for door in guarded.doors() {
            for token in ["", "nonsense"] {
                match guarded.dial(token, &door) {
                    Err(Fault::Refused(refusal)) => {
                        assert_eq!(refusal.code, ErrorCode::IllegalClient);
                    }
                    other => panic!("{token:?}: {other:?}"),
                }
            }
            let dialer = guarded.config("").dialer();
            for &kind in Kind::ALL {
                let connection = dialer.connect(&door, PATIENCE).expect("it listens");
                let verdict = verdict(&connection, kind);
                let code = ErrorCode::InvalidParams;
                let is_refused =
                    matches!(&verdict, Verdict::Refused { code: it, .. } if *it == code);
                assert!(is_refused, "{kind:?} as the first frame: {verdict:?}");
            }
        }
    }
}
