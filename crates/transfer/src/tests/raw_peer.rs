//! Peers made of plain sockets, which can send what no proper peer would.

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(super) use mooncake_testing::read_frame;
use mooncake_testing::{admit, greet};
use mooncake_types::{ClientId, Epoch, SegmentId};
use mooncake_wire::{Hello, Kind, PROTOCOL_VERSION, Refusal, Role, Welcome, decode_refusal};

use super::rig::{CLUSTER, Object, TOKEN, version};
use crate::local_socket;

/// A server that admits every peer, and then follows its script.
pub(super) struct FakeNode {
    pub(super) endpoint: Arc<str>,
    accepted: Arc<AtomicUsize>,
}

impl FakeNode {
    /// Runs `script` on every connection, after the handshake.
    pub(super) fn start(
        script: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self::without_handshake(move |mut stream| {
            admit(&mut stream, (CLUSTER, TOKEN), &Welcome::new(Epoch(0)))?;
            script(stream)
        })
    }

    /// Runs `script` on every connection. Threads end with the test process.
    pub(super) fn without_handshake(
        script: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string().into();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, script) = (Arc::clone(&accepted), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let script = Arc::clone(&script);
                std::thread::spawn(move || script(stream));
            }
        });
        Self { endpoint, accepted }
    }

    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

pub(super) fn hello() -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        cluster_id: CLUSTER.into(),
        role: Role::Client,
        client: ClientId(5),
        auth_token: TOKEN.into(),
    }
}

pub(super) fn connect(endpoint: &str) -> TcpStream {
    let stream = TcpStream::connect(endpoint).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A client that was admitted by the node's local socket.
pub(super) fn connect_nearby(endpoint: &str) -> TcpStream {
    let config = super::rig::tcp_config();
    let open = |endpoint: &str| crate::client::open(endpoint, &config, &config.dialer()).unwrap();
    let socket = open(endpoint).1.local_socket.unwrap();
    let (connection, _) = open(&local_socket::endpoint_of(&socket));
    let stream = TcpStream::try_clone(connection.stream()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

/// A client that was admitted.
pub(super) fn connect_and_greet(endpoint: &str) -> TcpStream {
    let mut stream = connect(endpoint);
    assert_eq!(greet(&mut stream, &hello()).unwrap().0.kind, Kind::Welcome);
    stream
}

/// Reads the refusal that must come next, and then the end of the connection.
pub(super) fn read_refusal(stream: &mut TcpStream) -> Refusal {
    let (header, body) = read_frame(stream).unwrap();
    assert_eq!(header.kind, Kind::Refusal);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
    decode_refusal(&body).unwrap()
}

/// An object of `len` bytes at the start of a node's segment.
pub(super) fn object_at(node: &FakeNode, len: u64) -> Object {
    Object {
        endpoint: Arc::clone(&node.endpoint),
        segment: SegmentId(1),
        offset: 0,
        len,
        key: "key".into(),
        version: version(1),
    }
}
