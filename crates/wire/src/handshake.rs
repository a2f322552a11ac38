use std::fmt;

use bytes::Bytes;
use mooncake_types::limits::{MAX_TRANSPORT_ADDRESS_BYTES, MAX_TRANSPORT_NAME_BYTES};
use mooncake_types::{Access, ClientId, Epoch, ErrorCode, Secret, SharedDirectory};
use prost::Message;

use crate::{
    DecodeError, Kind, Mac, challenge, column, frame, generated as proto,
    generated_fields as fields, shape, status,
};

/// The version of the frames and messages that this build speaks. It refuses peers of any other version.
pub const PROTOCOL_VERSION: u32 = 3;

/// The version of this program. It only informs people: sides of different versions may speak one protocol.
pub const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Longest message of a refusal, in bytes. With this bound its frame fits, whatever the peer sent.
const MAX_REFUSAL_BYTES: usize = 4 << 10;

/// The role of the side that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It puts and gets.
    Client,
    /// It lends segments.
    Node,
}

/// The first frame from the side that opened a connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of that side.
    pub protocol_version: u32,
    /// The pool to which it belongs.
    pub cluster_id: String,
    /// Its role.
    pub role: Role,
    /// The id of its client.
    pub client: ClientId,
    /// The secret that all processes of the pool share; empty if there is none. It stays with this side, which proves that it
    /// knows it: a hello that was received has none.
    pub auth_token: Secret,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hello")
            .field("protocol_version", &self.protocol_version)
            .field("cluster_id", &self.cluster_id)
            .field("role", &self.role)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// The answer that accepts a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// [`PROTOCOL_VERSION`] of the side that answers.
    pub protocol_version: u32,
    /// The epoch of the master, or the highest epoch that a node has seen.
    pub epoch: Epoch,
    /// For logs only: no code may depend on it.
    pub software_version: String,
    /// The socket on which a node serves processes of its own host, if it has one.
    pub local_socket: Option<LocalSocket>,
    /// The directory in which nodes keep objects as files, if the master names one.
    pub shared_directory: Option<SharedDirectory>,
    /// Ways in which peers reach the memory of a node one-sided.
    pub transports: Vec<TransportDescriptor>,
    /// Proves that the side that answers knows the token, if the other side has proved that it does.
    pub mac: Option<Mac>,
}

/// A way in which peers reach the memory of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportDescriptor {
    /// Its name, with all that both sides must have in common.
    pub kind: String,
    /// The address of the node, in the form of that kind.
    pub address: Bytes,
}

/// A Unix socket of a node in the abstract namespace: its name belongs to no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalSocket {
    /// The boot id of the host's kernel.
    pub boot_id: String,
    /// The network namespace to which the socket's name belongs.
    pub network_namespace: u64,
    /// The id of the node's server: each server that starts draws a new one.
    pub instance: u128,
}

/// The answer that refuses a connection; its sender then closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} ({})", code.name())]
pub struct Refusal {
    /// The kind of mismatch.
    pub code: ErrorCode,
    /// The reason, for people. It holds no secret.
    pub message: String,
}

impl Refusal {
    /// A refusal with this message.
    pub fn new(code: ErrorCode, message: impl ToString) -> Self {
        Self { code, message: message.to_string() }
    }
}

/// The values that a [`Hello`] must have.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// The pool of the side that accepts the connection.
    pub cluster_id: &'a str,
    /// The secret of that pool; empty if it has none. Who knows it may do everything.
    pub auth_token: &'a str,
    /// Tokens of members that may do less, with what they may do.
    pub roles: &'a [(String, Access)],
}

impl<'a> Expected<'a> {
    /// Whether the pool has no secret.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.tokens().next().is_none()
    }

    /// All tokens, with what those may do who know them.
    pub fn tokens(&self) -> impl Iterator<Item = (&'a str, Access)> + use<'a> {
        let all = Some((self.auth_token, Access::ALL)).filter(|(token, _)| !token.is_empty());
        let roles = self.roles.iter().map(|(token, access)| (token.as_str(), access.clone()));
        all.into_iter().chain(roles)
    }

    /// What those may do who send this token. `None` if it is no token of the pool.
    #[must_use]
    pub fn access_of(&self, token: &[u8]) -> Option<Access> {
        // All are compared, so that the time says nothing about where the right one stands.
        let found = self.roles.iter().fold(None, |found, (known, access)| {
            if same_secret(token, known.as_bytes()) { found.or(Some(access)) } else { found }
        });
        match same_secret(token, self.auth_token.as_bytes()) {
            true if self.auth_token.is_empty() && !self.roles.is_empty() => None,
            true => Some(Access::ALL),
            false => found.cloned(),
        }
    }
}

impl Hello {
    /// The hello of a process of this build to a pool that has neither a name nor a secret.
    #[must_use]
    pub const fn new(role: Role, client: ClientId) -> Self {
        Self {
            protocol_version: PROTOCOL_VERSION,
            cluster_id: String::new(),
            role,
            client,
            auth_token: Secret::NONE,
        }
    }

    /// Checks whether the side that sent this hello belongs to the pool. Whether it knows a token, is another question.
    ///
    /// # Errors
    /// The refusal to send before the connection is closed: `InvalidVersion` for another protocol version,
    /// `InvalidParams` for another cluster.
    pub fn check(&self, expected: &Expected<'_>) -> Result<(), Refusal> {
        let refuse = |code, message| Err(Refusal { code, message });
        if self.protocol_version != PROTOCOL_VERSION {
            let message = format!(
                "the server speaks protocol version {PROTOCOL_VERSION}, the client {}",
                self.protocol_version
            );
            return refuse(ErrorCode::InvalidVersion, message);
        }
        if self.cluster_id != expected.cluster_id {
            let message = format!(
                "the server belongs to cluster {:?}, the client to {:?}",
                expected.cluster_id, self.cluster_id
            );
            return refuse(ErrorCode::InvalidParams, message);
        }
        Ok(())
    }
}

impl Welcome {
    /// The answer of this build, without a local socket and without a shared directory.
    #[must_use]
    pub fn new(epoch: Epoch) -> Self {
        Self {
            protocol_version: PROTOCOL_VERSION,
            epoch,
            software_version: SOFTWARE_VERSION.to_owned(),
            local_socket: None,
            shared_directory: None,
            transports: Vec::new(),
            mac: None,
        }
    }
}

/// Compares two secrets in a time that does not depend on how many bytes of a guess are right.
#[must_use]
pub fn same_secret(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |seen, (left, right)| seen | (left ^ right));
    left.len() == right.len() && std::hint::black_box(differences) == 0
}

/// Appends a [`Kind::Hello`] frame.
pub fn encode_hello(out: &mut Vec<u8>, request_id: u64, hello: &Hello) {
    let role = match hello.role {
        Role::Client => proto::Role::Client,
        Role::Node => proto::Role::Node,
    };
    let message = proto::HelloRequest {
        protocol_version: hello.protocol_version,
        cluster_id: hello.cluster_id.clone(),
        role: role.into(),
        client_id: column::from_id(hello.client.0),
    };
    frame::append(out, Kind::Hello, request_id, &message);
}

/// Appends a [`Kind::Welcome`] frame.
pub fn encode_welcome(out: &mut Vec<u8>, request_id: u64, welcome: &Welcome) {
    let message = proto::WelcomeResponse {
        protocol_version: welcome.protocol_version,
        software_version: welcome.software_version.clone(),
        epoch: Some(welcome.epoch.0),
        local_socket: welcome.local_socket.as_ref().map(|socket| proto::LocalSocket {
            boot_id: socket.boot_id.clone(),
            network_namespace: socket.network_namespace,
            instance: column::from_id(socket.instance),
        }),
        shared_directory: welcome.shared_directory.clone().map(|directory| {
            let SharedDirectory { path, most_bytes, evicts } = directory;
            proto::SharedDirectory { path, most_bytes, evicts }
        }),
        transports: welcome.transports.iter().map(from_transport).collect(),
        mac: welcome.mac.map_or_else(Bytes::new, |mac| Bytes::copy_from_slice(&mac)),
    };
    frame::append(out, Kind::Welcome, request_id, &message);
}

/// Appends a [`Kind::Refusal`] frame. Cuts a message to 4 KiB: it may repeat text of the peer.
pub fn encode_refusal(out: &mut Vec<u8>, request_id: u64, refusal: &Refusal) {
    let end = refusal.message.floor_char_boundary(MAX_REFUSAL_BYTES);
    let message = proto::RefusalResponse {
        message: refusal.message[..end].to_owned(),
        status_code: Some(status::from_error(refusal.code)),
    };
    frame::append(out, Kind::Refusal, request_id, &message);
}

/// Decodes the body of a [`Kind::Hello`] frame.
///
/// If the peer speaks another version, keeps only the fields that [`Hello::check`] needs to refuse it: the role
/// becomes client, the id zero.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_hello(body: &[u8]) -> Result<Hello, DecodeError> {
    let message = proto::HelloRequest::decode(body)?;
    let (role, client) = match message.protocol_version {
        0 => return Err(DecodeError::Missing { what: "protocol_version" }),
        PROTOCOL_VERSION => {
            (to_role(message.role)?, column::to_id("client_id", &message.client_id)?)
        }
        _ => (Role::Client, 0),
    };
    Ok(Hello {
        protocol_version: message.protocol_version,
        cluster_id: message.cluster_id,
        role,
        client: ClientId(client),
        auth_token: Secret::default(),
    })
}

fn to_role(number: i32) -> Result<Role, DecodeError> {
    match proto::Role::try_from(number) {
        Ok(proto::Role::Client) => Ok(Role::Client),
        Ok(proto::Role::Node) => Ok(Role::Node),
        Ok(proto::Role::Unspecified) | Err(_) => {
            Err(DecodeError::OutOfRange { what: "role", value: number.into() })
        }
    }
}

/// Decodes the body of a [`Kind::Welcome`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_welcome(body: &[u8]) -> Result<Welcome, DecodeError> {
    shape::check(body, fields::welcome_response::FIELDS)?;
    let message = proto::WelcomeResponse::decode(body)?;
    let epoch = message.epoch.ok_or(DecodeError::Missing { what: "epoch" })?;
    Ok(Welcome {
        protocol_version: message.protocol_version,
        epoch: Epoch(epoch),
        software_version: message.software_version,
        local_socket: message.local_socket.map(to_local_socket).transpose()?,
        shared_directory: message.shared_directory.map(|directory| {
            let proto::SharedDirectory { path, most_bytes, evicts } = directory;
            SharedDirectory { path, most_bytes, evicts }
        }),
        transports: message.transports.into_iter().map(to_transport).collect::<Result<_, _>>()?,
        mac: match message.mac.is_empty() {
            true => None,
            false => Some(challenge::fixed("mac", &message.mac)?),
        },
    })
}

fn from_transport(transport: &TransportDescriptor) -> proto::TransportDescriptor {
    let TransportDescriptor { kind, address } = transport.clone();
    proto::TransportDescriptor { kind, address }
}

fn to_transport(transport: proto::TransportDescriptor) -> Result<TransportDescriptor, DecodeError> {
    let proto::TransportDescriptor { kind, address } = transport;
    column::check_most("kind", kind.len(), MAX_TRANSPORT_NAME_BYTES)?;
    column::check_most("address", address.len(), MAX_TRANSPORT_ADDRESS_BYTES)?;
    Ok(TransportDescriptor { kind, address })
}

fn to_local_socket(socket: proto::LocalSocket) -> Result<LocalSocket, DecodeError> {
    let instance = column::to_id("instance", &socket.instance)?;
    let (boot_id, network_namespace) = (socket.boot_id, socket.network_namespace);
    Ok(LocalSocket { boot_id, network_namespace, instance })
}

/// Decodes the body of a [`Kind::Refusal`] frame.
///
/// # Errors
/// If the body is not a message of this kind.
pub fn decode_refusal(body: &[u8]) -> Result<Refusal, DecodeError> {
    let message = proto::RefusalResponse::decode(body)?;
    let number = message.status_code.ok_or(DecodeError::Missing { what: "status_code" })?;
    Ok(Refusal { code: status::to_error(number), message: message.message })
}

#[cfg(test)]
mod tests {
    use mooncake_types::Rights;

    use super::*;

    fn hello(protocol_version: u32, cluster_id: &str) -> Hello {
        Hello {
            protocol_version,
            cluster_id: cluster_id.into(),
            ..Hello::new(Role::Client, ClientId(1))
        }
    }

    #[test]
    fn a_peer_that_does_not_belong_is_told_why() {
        let check = |hello: Hello, code, message: &str| {
            let refusal = Refusal { code, message: message.into() };
            let expected = Expected { cluster_id: "ours", auth_token: "", roles: &[] };
            assert_eq!(hello.check(&expected), Err(refusal));
        };
        check(
            hello(1, "theirs"),
            ErrorCode::InvalidVersion,
            "the server speaks protocol version 3, the client 1",
        );
        check(
            hello(PROTOCOL_VERSION, "the\nirs"),
            ErrorCode::InvalidParams,
            r#"the server belongs to cluster "ours", the client to "the\nirs""#,
        );
        let expected = Expected { cluster_id: "ours", auth_token: "secret", roles: &[] };
        assert_eq!(hello(PROTOCOL_VERSION, "ours").check(&expected), Ok(()));
    }

    #[test]
    fn a_token_of_its_own_allows_what_its_line_says() {
        let [read, watch] = [Rights::READ, Rights::METRICS].map(Access::of);
        let roles = [("reader".to_owned(), read.clone()), ("watcher".to_owned(), watch.clone())];
        for auth_token in ["", "secret"] {
            let expected = Expected { cluster_id: "", auth_token, roles: &roles };
            let access = |token: &str| expected.access_of(token.as_bytes());
            assert_eq!(access("reader"), Some(read.clone()));
            assert_eq!(access("watcher"), Some(watch.clone()));
            assert_eq!(access("secret"), (auth_token == "secret").then_some(Access::ALL));
            assert_eq!([access(""), access("read"), access("readers")], [None, None, None]);
            let tokens: Vec<_> = expected.tokens().map(|(token, _)| token).collect();
            assert!(tokens.ends_with(&["reader", "watcher"]));
            assert_eq!((tokens.len() == 3, expected.is_open()), (!auth_token.is_empty(), false));
        }
        assert!(Expected { cluster_id: "", auth_token: "", roles: &[] }.is_open());
    }

    #[test]
    fn a_token_is_not_shown_in_logs() {
        let hello = Hello { auth_token: "secret".into(), ..hello(PROTOCOL_VERSION, "ours") };
        let shown = format!("{hello:?}");
        assert!(shown.contains("ours") && !shown.contains("secret"), "{shown}");
    }

    #[test]
    fn a_long_refusal_is_cut_at_a_character() {
        let message = format!("{}ä{}", "x".repeat(MAX_REFUSAL_BYTES - 1), "y".repeat(1 << 20));
        let mut out = Vec::new();
        encode_refusal(&mut out, 0, &Refusal { code: ErrorCode::InvalidParams, message });
        let cut = "x".repeat(MAX_REFUSAL_BYTES - 1);
        let decoded = decode_refusal(&out[crate::HEADER_LEN..]);
        assert_eq!(decoded, Ok(Refusal { code: ErrorCode::InvalidParams, message: cut }));
    }

    #[test]
    fn a_peer_of_another_version_is_understood_well_enough_to_be_refused() {
        let message = proto::HelloRequest {
            protocol_version: 9,
            cluster_id: "ours".into(),
            role: 77,
            client_id: bytes::Bytes::new(),
        };
        let decoded = decode_hello(&message.encode_to_vec());
        assert_eq!(decoded, Ok(Hello { client: ClientId(0), ..hello(9, "ours") }));
    }
}
